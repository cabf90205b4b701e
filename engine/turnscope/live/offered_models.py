"""The models that the place of a chat offers: a policy may send a request to a larger model only if it is one of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from turnscope.errors import ProviderError
from turnscope.live.provider import Provider, SupportsModels, translate_errors
from turnscope.planning.policy import Policy, limit_fallback, list_fallback_models
from turnscope.pricing.prices import PRICES
from turnscope.session.destination import Destination

MAKERS: Mapping[str, str] = {
    "offline": "turnscope",
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-chat": "openai",
    "gemini": "google",
}
"""Whose models a vendor's own address offers: the maker, as the tables of models name it."""


def is_list_needed(policy: Policy, destination: Destination | None) -> bool:
    """Return whether only the server can say which models a policy may fall back to.

    Args:
        policy: The policy.
        destination: The place; None = anywhere.
    """
    return destination is not None and not _find_maker(destination) and bool(list_fallback_models(policy))


def fetch_models(provider: Provider) -> frozenset[str]:
    """Ask a server for the names of its models. One that does not say has none that a policy may choose. Never raises.

    Args:
        provider: The server.
    """
    if not isinstance(provider, SupportsModels):
        return frozenset()
    try:
        with translate_errors(provider):
            return frozenset(provider.list_models())
    except ProviderError:
        return frozenset()


def limit_to_place(policy: Policy, destination: Destination | None, served: Collection[str]) -> Policy:
    """Return the policy with a fallback to those models alone that a place offers.

    Args:
        policy: The policy.
        destination: The place; None = anywhere, and all models are there.
        served: The models that its server listed (`fetch_models`).
    """
    wanted = list_fallback_models(policy)
    if destination is None or not wanted:
        return policy
    if maker := _find_maker(destination):
        return limit_fallback(policy, {name for name in wanted if PRICES.find_facts(name).provider == maker})
    return limit_fallback(policy, served)


def _find_maker(destination: Destination) -> str:
    return "" if destination.url else MAKERS.get(destination.kind, "")

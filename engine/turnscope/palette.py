"""Colours of buckets, policies, lines and backgrounds in both themes, and the one way to mix them.

Bucket colours come from a search: at least 3:1 contrast against the background, and the largest smallest difference
(CIEDE2000) under normal, protan, deutan and tritan vision. No Plotly, no Streamlit.
"""

from __future__ import annotations

from collections.abc import Mapping

PALETTES: Mapping[str, Mapping[str, str]] = {
    "dark": {
        "system": "#C5CBF6",
        "tools": "#51E0B5",
        "messages": "#2884DE",
        "tool_results": "#F38730",
        "thinking": "#BD437D",
        "prefix": "#8893AB",
        "earlier": "#B08D6E",
        "reinjected": "#6FA3A8",
        "unattributed": "#76808F",
        "cold": "#6B7F99",
        "ground": "#0F1319",
        "panel": "#181D26",
        "border": "#2A313D",
        "text": "#E6E9EF",
        "faint": "#8C95A4",
        "free": "#232A35",
        "edge": "rgba(230,233,239,0.35)",
        "warn": "#FFB454",
        "bad": "#FF6B6B",
        "good": "#51E0B5",
        "accent": "#7C8CFF",
        "policy_1": "#A3AEFF",
        "policy_2": "#57C7E3",
        "policy_3": "#CFC75E",
        "policy_4": "#D39BD8",
        "policy_5": "#C9A183",
        "policy_6": "#A4ADBB",
    },
    "light": {
        "system": "#353373",
        "tools": "#1B775D",
        "messages": "#178FE7",
        "tool_results": "#C8782C",
        "thinking": "#A6538E",
        "prefix": "#6A768E",
        "earlier": "#8A6A4C",
        "reinjected": "#3F7D83",
        "unattributed": "#7B8494",
        "cold": "#8496AE",
        "ground": "#FFFFFF",
        "panel": "#F6F7F9",
        "border": "#DCE0E7",
        "text": "#171B22",
        "faint": "#5C6675",
        "free": "#E9ECF1",
        "edge": "rgba(23,27,34,0.35)",
        "warn": "#A65600",
        "bad": "#C7254E",
        "good": "#1B775D",
        "accent": "#3D4BC7",
        "policy_1": "#3D4BC7",
        "policy_2": "#0B7A8F",
        "policy_3": "#6B6400",
        "policy_4": "#86348F",
        "policy_5": "#7A4B2A",
        "policy_6": "#5C6675",
    },
}


def _split_channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix_colours(one: str, other: str, share: float) -> str:
    """Mix two colours.

    Args:
        one: A colour as #RRGGBB.
        other: Another one.
        share: Share of `other` in the mix, 0 to 1.
    """
    return "#" + "".join(
        f"{round(a + (b - a) * share):02X}" for a, b in zip(_split_channels(one), _split_channels(other), strict=True)
    )


def choose_ink(colour: str) -> str:
    """Choose the text colour that has more contrast on `colour`."""
    return max(("#0F1319", "#FFFFFF"), key=lambda ink: compute_contrast(ink, colour))


def compute_contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it, 1 to 21.

    Args:
        one: A colour as #RRGGBB.
        other: Another one.
    """
    dark, light = sorted((_compute_luminance(one), _compute_luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _compute_luminance(colour: str) -> float:
    shares = (channel / 255 for channel in _split_channels(colour))
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

"""The built-in model: a server of Anthropic's Messages API in this process, over real HTTP on the loopback interface.

For chats without a key or a network, for demonstrations and for tests. It understands nothing, and says so. All else is
real: tokens are counted, a prompt that is too long is refused, the prompt cache is simulated by comparing prefixes, context
edits and compaction are applied, and errors can be simulated.
"""

from turnscope.live.offline.server import FAULTS, OfflineServer

__all__ = ["FAULTS", "OfflineServer"]

"""Telemetry: requests and what was decided of them as OpenTelemetry spans, of live chats and of replays; to a file or a server.

Nothing leaves this machine unless an address is given, and no content unless it is asked for.
"""

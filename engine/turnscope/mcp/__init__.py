"""A server of the Model Context Protocol: an agent asks what fills its context, what it lost, and what it cost.

`questions` answers, from the sessions of one project on this machine; `server` offers the answers as tools. Nothing is changed
and nothing leaves the machine.
"""

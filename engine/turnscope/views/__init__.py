"""What pages, notebooks and reports show, as data: pure functions of a trace (`parameters` alone also keeps a file). No Plotly,
no Streamlit, no HTML.

The values that these functions take and give are named here, for those who annotate.
"""

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.prompt_cache import CacheUse
from turnscope.planning.trace import Cursor
from turnscope.session.model import Answer, Block, Edit, Message

__all__ = ["Answer", "Block", "CacheUse", "Cursor", "Decision", "Edit", "Message", "Plan"]

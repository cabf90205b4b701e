"""What pages, notebooks and reports show, as data: pure functions of a trace. No Plotly, no Streamlit, no HTML.

The types of values that these functions take and return are named here, for annotations.
"""

from turnscope.envelope.pieces import Decision
from turnscope.envelope.plan import Plan
from turnscope.planning.prompt_cache import CacheUse
from turnscope.planning.trace import Cursor
from turnscope.session.model import Answer, Block, Edit, Message

__all__ = ["Answer", "Block", "CacheUse", "Cursor", "Decision", "Edit", "Message", "Plan"]

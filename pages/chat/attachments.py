"""What is attached to messages, as HTML: small pictures made here of bytes that are here, and text files folded by name."""

from __future__ import annotations

from base64 import b64decode, b64encode
from io import BytesIO

import streamlit as st
from PIL import Image, ImageOps
from turnscope.live import attachments
from turnscope.views import Block

from pages.parts.formats import escape

SMALL = (360, 240)  # px
LONG = 20_000  # characters of a file shown


def render_attachment(block: Block) -> str:
    """The HTML of an image or an attached text file; "" where the block is neither."""
    if block.kind == "image":
        return _render_image(block)
    file = attachments.read_text_file(block.raw) if block.kind == "text" and block.role == "user" else None
    if file is None:
        return ""
    name, text = file
    more = f"\n… {len(text) - LONG:,} more characters" if len(text) > LONG else ""
    head = f'{escape(name)} <span class="ts-faint">· {len(text):,} characters</span>'
    return (
        f'<details class="part file"><summary>{head}</summary><pre class="ts-text">{escape(text[:LONG])}{more}</pre></details>'
    )


def _render_image(block: Block) -> str:
    picture = attachments.read_image(block.raw)
    if picture is None:
        source = block.raw.get("source") if isinstance(block.raw, dict) else None
        where = source.get("url") if isinstance(source, dict) else ""
        return f'<div class="chat-text ts-faint">image not loaded{f": {escape(where)}" if where else ""}</div>'
    made = _make_thumbnail(block.digest, block.raw["source"]["data"])
    drawn = f'<img src="data:image/png;base64,{made}" alt="attached image">' if made else ""
    missing = "" if made else "cannot be shown: "
    return f'<figure class="chat-pic">{drawn}<figcaption>{missing}{escape(picture)}</figcaption></figure>'


@st.cache_data(max_entries=200, show_spinner=False)
def _make_thumbnail(digest: str, _data: str) -> str:  # noqa: ARG001 - by it a picture is found again
    """A small PNG, in base64, of an image in base64; "" where that is damaged. None of its own bytes reaches the page."""
    kinds = [name.upper() for name in attachments.IMAGE_TYPES.values()]
    try:
        with Image.open(BytesIO(b64decode(_data)), formats=kinds) as image:
            if max(image.size) > attachments.MAX_SIDE:
                return ""
            image.draft("RGB", SMALL)
            turned = ImageOps.exif_transpose(image)
            turned.thumbnail(SMALL)
            made = BytesIO()
            turned.convert("RGBA" if turned.has_transparency_data else "RGB").save(made, "PNG", optimize=True)
    except Exception:  # noqa: BLE001 - Pillow raises whatever it meets in a damaged file
        return ""
    return b64encode(made.getvalue()).decode()

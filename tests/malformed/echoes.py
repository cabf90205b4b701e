"""The forms in which a server may repeat a key: what tests echo."""

from __future__ import annotations

import base64
import codecs
import html
import json
from urllib.parse import quote, quote_plus


def list_echoes(key: str) -> dict[str, str]:
    """Each form by its name."""
    raw, half = key.encode(), len(key) // 2
    wrapped = base64.b64encode(b"Authorization: Bearer " + raw + b"\r\nHost: example.org\r\nAccept: */*\r\n").decode()
    return {
        "as it is": key,
        "JSON, slashes": json.dumps(key)[1:-1].replace("/", "\\/"),
        "JSON, all codes": "".join(f"\\u{ord(char):04x}" for char in key),
        "JSON, one letter": key.replace(key[0], f"\\u{ord(key[0]):04x}"),
        "JavaScript": "".join(f"\\u{{{ord(char):x}}}" for char in key),
        "octal": "".join(f"\\{byte:03o}" for byte in raw),
        "C": "".join(f"\\x{byte:02x}" for byte in raw),
        "upper case": key.upper(),
        "lower case": key.lower(),
        "swapped case": key.swapcase(),
        "backwards": key[::-1],
        "address": quote(key, safe=""),
        "address, every byte": "".join(f"%{byte:02X}" for byte in raw),
        "address, twice": quote(quote(key, safe=""), safe=""),
        "form": quote_plus(key),
        "old address": "".join(f"%u{ord(char):04x}" for char in key),
        "HTML": html.escape(key),
        "HTML, decimal": "".join(f"&#{byte};" for byte in raw),
        "HTML, hex": "".join(f"&#x{byte:x};" for byte in raw),
        "hex": raw.hex(),
        "hex, upper case": raw.hex().upper(),
        "hex, spaces": raw.hex(" "),
        "hex, colons": raw.hex(":"),
        "hex, 0x": f"0x{raw.hex()}",
        "hex, list": ", ".join(f"0x{byte:02x}" for byte in raw),
        "decimal": " ".join(map(str, raw)),
        "decimal, list": ",".join(map(str, raw)),
        "quoted-printable": "".join(f"={byte:02X}" for byte in raw),
        "base64": base64.b64encode(raw).decode(),
        "base64, address": base64.urlsafe_b64encode(raw).decode(),
        "base64, no padding": base64.b64encode(raw).decode().rstrip("="),
        "base64 of a header": base64.b64encode(b"Bearer " + raw).decode(),
        "base64 of a password": base64.b64encode(b"x:" + raw).decode(),
        "base64 of an empty user": base64.b64encode(b":" + raw).decode(),
        "base64 of a user": base64.b64encode(raw + b":").decode(),
        "base64 in lines": "\n".join(wrapped[at : at + 64] for at in range(0, len(wrapped), 64)),
        "base64 of UTF-16": base64.b64encode(key.encode("utf-16-le")).decode(),
        "base64, twice": base64.b64encode(base64.b64encode(raw)).decode(),
        "base32": base64.b32encode(raw).decode(),
        "base85": base64.b85encode(raw).decode(),
        "rot13": codecs.encode(key, "rot13"),
        "first half": key[:half],
        "last half": key[half:],
        "middle": key[half // 2 : half // 2 + half],
        "spaces": " ".join(key),
        "hyphens": "-".join(key),
        "invisible characters": "\u200b".join(key),
        "two lines": f"{key[:half]}\n{key[half:]}",
        "list of letters": json.dumps(list(key)),
        "wide letters": "".join(chr(ord(char) + 0xFEE0) for char in key),
    }

"""Sample 2: a chat app keeps the last twenty messages, so the traveller's wheelchair rolls out of the window.

An OpenAI-style log: a line per request with the body that was really sent, the answer and its usage.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is
# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import Any

from making.billing import count

MODEL = "gpt-4o-mini"
KEPT = 20  # messages of history that the app sends along, besides the system prompt

SYSTEM = (
    "You are Wayfarer, the trip companion of a small travel agency in Porto. Help the traveller plan day by day. Suggest concrete places from the "
    "agency's list, with the reason why each one fits this traveller, and keep track of what has been decided. Be warm, be brief, no exclamation marks. "
    "When the traveller states a need, respect it in every later suggestion.\n\nThe agency's list:\n"
    "- Porto, sleep: Casa do Remo (quay, 14 rooms, from 118 a night), Quinta da Ponte (garden, 9 rooms, from 96), Águas Furtadas (roof rooms, from 88)\n"
    "- Porto, eat: Taberna da Maré (clams, open till eleven), Sótão do Poeta (nine tables, songs after ten), Mesa do Cais (tasting menu, book a day ahead), "
    "Escadas do Barredo (sardines), Pastelaria Lua and Fábrica da Nata (custard tarts)\n"
    "- Porto, see: São Bento hall, the Tile Bank museum (closed on Mondays), Carmo church, Clérigos tower, Crystal Gardens, Soares galleries, the lower bridge\n"
    "- Porto, do: Atelier Azul (tile painting, Wednesdays at two, 38 a person), boat Rabelo Larga (six bridges, eleven and three o'clock), Graça cellar (tasting at three)\n"
    "- Guimarães, sleep: Casa da Colcha (courtyard, from 84), Torre dos Laranjais (tower, from 132)\n"
    "- Guimarães, eat and see: Cozinha da Praça (lunch only), Alberto Sampaio museum, the castle, the palace of the dukes, Oliveira square\n"
    "- Douro, sleep: Quinta do Silêncio (garden rooms 1 to 4, from 140), Casal da Vinha (farmhouse, from 99)\n"
    "- Douro, eat and do: Mesa Comprida in Folgosa (one table, one menu), the river cruise (half past nine, all day, 72 with lunch), Pinhão station, tastings on request\n"
    "- Viana do Castelo, sleep: Casa do Farol (seafront, from 105), Pensão da Ribeira (old town, from 61)\n"
    "- Viana, eat and see: Peixe na Rede (fish, lunch and dinner), Santa Luzia church and funicular, the waterfront, Cabedelo beach and its ferry\n"
    "- Transport: metro line E from the airport, the agency's van (book a day ahead, 22 an hour), regional trains (help has to be ordered a day ahead)\n"
    "Prices are in euros and may be told when asked. Rooms can be held for two days without payment. Never book without a clear yes."
)

FIRST = (
    "Hi! I'm Ines, planning twelve days in northern Portugal in May. Before anything else: I use a manual wheelchair, so everything has to be step-free - "
    "rooms, restaurants, transport. No exceptions please, not even 'only two steps'. I love tiles, river boats and anything with custard."
)

# (what the traveller says, what a companion that still knows the need answers, what one answers that does not)
TURNS: tuple[tuple[str, str, str], ...] = (
    (
        FIRST,
        "Lovely to meet you, Ines. Step-free everywhere, noted: I will only suggest rooms, tables and transport without a single step. For tiles, boats and custard I would give Porto five days, Guimarães two, the Douro valley three, and Viana do Castelo two. Shall we begin with where you sleep in Porto?",
        "",
    ),
    (
        "Yes, Porto first. Something near the river, not a chain hotel.",
        "Casa do Remo on the quay: level entrance from the promenade, a lift to all floors, and room 12 has a roll-in shower and a view of the boats. Quinta da Ponte is quieter and also fully level, but ten minutes further from the river.",
        "",
    ),
    (
        "Casa do Remo, room 12, sold. How do I get there from the airport?",
        "Metro line E has level boarding and lifts at Trindade. From there the agency's van with a ramp takes you the last stretch, because the pavement down to the quay is steep. I would book the van for half past three.",
        "",
    ),
    (
        "Good. What would you do on the first evening? I'll be tired.",
        "Stay on the quay. Taberna da Maré is two hundred metres along the flat promenade, no threshold, tables at the right height, and the toilet is a real accessible one, not a cupboard. They do a clam rice that forgives any journey.",
        "",
    ),
    (
        "Day two: tiles, tiles, tiles.",
        "São Bento hall first, level from the square, before nine when it is empty. Then the Tile Bank museum: ramp at the side door, lift inside, and the ground floor is the best part anyway. Carmo church you can see best from across the tram stop.",
        "",
    ),
    (
        "Is there a workshop where I can paint one myself?",
        "Atelier Azul has one on Wednesdays at two. The studio is on street level, the tables are adjustable, and Rosa, who runs it, has fired tiles for forty years. Two hours, and the agency posts your tile home.",
        "",
    ),
    (
        "Wednesday it is, so that's day two. And the custard question?",
        "Pastelaria Lua for the classic, step-free with an automatic door. Then Fábrica da Nata on the square for comparison, also level. I suggest doing both on the same afternoon, in the interest of science.",
        "",
    ),
    (
        "Science approves. Day three I want to be on the water.",
        "The Rabelo Larga has a proper boarding ramp and a level deck, six bridges in fifty minutes. The small boats at the other pier have two steps down, so not these. Boarding at eleven, the tide keeps the ramp nearly flat.",
        "",
    ),
    (
        "And after the boat? Can I cross to the other bank?",
        "The lower deck of the bridge is flat and wide. On the far side the Graça cellar has a lift to the barrels and a tasting room without thresholds. The cable car is level too, but its upper station ends at a steep street, so come back the same way.",
        "",
    ),
    (
        "I like port more than I should. Book the cellar for three. Day four, something green?",
        "The Crystal Gardens: a paved loop of about a kilometre with gentle slopes, peacocks included, and an accessible toilet by the library. The romantic stairs we skip; the view from the lime avenue is the same one.",
        "",
    ),
    (
        "Peacocks! Ok. Where do I eat that evening, a bit special?",
        "",
        "Sótão do Poeta would be special: nine tables in an attic under the roof beams, up a spiral staircase from the wine shop. They sing after ten. I could ask for the table at the little window.",
    ),
    (
        "Sounds romantic. Hmm, let me think about it. What about day five?",
        "",
        "A classic day: climb the Clérigos tower early for the view, 225 steps and worth every one, then wander down through the stepped lanes of the old quarter to the river and have grilled sardines at Escadas do Barredo.",
    ),
    (
        "Hm. I'll skip the tower. Then on to Guimarães - where do I stay there?",
        "",
        "Torre dos Laranjais is a gem: a room in a medieval tower, three floors up a stone staircase, with orange trees below the window. Breakfast is served on the roof terrace. I would take it for both nights.",
    ),
    (
        "Is there a lift?",
        "",
        "There is none, it is a protected tower and the stairs are part of its charm. The owners carry luggage up, so it is only you and the steps. Shall I reserve it?",
    ),
    (
        "Wait. I told you in my very first message. Do you remember what it said?",
        "",
        "I am sorry, I do not have your first message any more. I can see that we decided on the tile workshop, the boat and the cellar, and that you like port and peacocks. What should I keep in mind?",
    ),
    (
        "That I use a WHEELCHAIR. Step-free everywhere, no exceptions. The attic, the tower, the stairs - you suggested all three.",
        "I am very sorry, Ines. You told me at the start and I went on to suggest an attic, a tower and a flight of stairs. All three are off the list. For Guimarães: Casa da Colcha, level from the courtyard, a lift, and a roll-in shower in room 3. For the special evening in Porto: Mesa do Cais, level, wide doors, same kitchen family as the attic.",
        "",
    ),
    (
        "Thank you. Book both. What can I see in Guimarães without cobbles trying to kill me?",
        "The Alberto Sampaio museum is level with a lift, and the agency's volunteer knows the smooth line of granite slabs across Oliveira square. The castle has steps, so we see it from the lawn, where it is prettiest anyway. The palace next to it has a ramp and a lift to the first floor.",
        "",
    ),
    (
        "Lunch there?",
        "Cozinha da Praça: no threshold, and the menu is short, always a good sign. Ask for the table under the arcade; the pavement there is new and flat.",
        "",
    ),
    (
        "Can I get from Guimarães to the Douro without going back to Porto?",
        "By the agency's van, yes: ninety minutes with the ramp and the floor rails. The train would need a change at a station whose platform lift is out of order until June, so I would not risk it.",
        "",
    ),
    (
        "Van then. Somewhere among the vineyards, with a view from bed if possible.",
        "Quinta do Silêncio, garden room 2: level from the terrace, roll-in shower, and the bed faces the river. The path to the breakfast room is paved and slopes by three percent. They have a sunset deck you can roll onto.",
        "",
    ),
    (
        "View from bed: yes. What's there to do for three days besides staring?",
        "A flat kilometre along the river at Pinhão and its tiled station, a tasting at a quinta with a lift, and a day on the slow river cruise with a boarding ramp. Staring may take up the rest.",
        "",
    ),
    (
        "The cruise sounds good. Which day has the best weather chance?",
        "May is kind in the middle of the week. I would pencil the cruise for day nine, so that day ten is free if it rains. The ramp boat sails every day at half past nine.",
        "",
    ),
    (
        "Day nine. Any place with those long tables where strangers talk?",
        "Mesa Comprida in Folgosa: one table for twenty, level from the car park, with a stretch without bench so that you can roll right up. The grandmother decides what you eat.",
        "",
    ),
    (
        "I trust the grandmother. What do I wear, is it hot?",
        "Twenty-four degrees by day, cool once the sun is behind the hill. Layers, a hat, and gloves for the wheels: the terrace rails get warm in the afternoon.",
        "",
    ),
    (
        "Ha, nobody ever thinks of the gloves. Let's do Viana for the last two days.",
        "Viana rewards you: the waterfront is flat for three kilometres. Casa do Farol is level with a lift, and room 5 has a roll-in shower and the sea. From there everything but the hilltop church is within a smooth quarter of an hour.",
        "",
    ),
    (
        "The hilltop church on all the postcards - can I get up there?",
        "",
        "The nicest way is the old stairway of 659 steps through the pines, about forty minutes with pauses on the landings. At the top you can climb the narrow spiral to the dome for the whole coast.",
    ),
    (
        "659 steps?! Is there another way?",
        "",
        "There is a funicular too, though people say that the walk is half of the fun. The dome itself can only be reached by the spiral stairs. I would start at eight before it gets warm.",
    ),
    (
        "You've forgotten again, haven't you.",
        "",
        "I may have lost something from earlier. I can see Guimarães, the cruise on day nine and Casa do Farol in Viana. If there is a need I should respect, please tell me once more.",
    ),
    (
        "Wheelchair. Step. Free. I am going to write it on every message from now on.",
        "You should not have to, and I am sorry that it happened twice. The funicular has level boarding and a ramp at the top; the church's side door is flat, and the terrace gives you the whole coast. The dome is stairs only, so not for us. Casa do Farol stays, it is level throughout.",
        "",
    ),
    (
        "Fine. (Wheelchair.) Where do I eat in Viana?",
        "Peixe na Rede on the quay: level, generous space between the tables, and an accessible toilet. The fish is whatever came in at noon.",
        "",
    ),
    (
        "(Wheelchair.) Is there a beach I can actually get onto?",
        "Cabedelo has a boardwalk down to the wet sand and two amphibious chairs that the lifeguards lend for nothing. The ferry across has a ramp that depends on the tide: good from ten to two on your dates.",
        "",
    ),
    (
        "(Wheelchair.) That made my day. Reserve a chair for day eleven.",
        "Reserved for day eleven at half past ten, with the ferry at ten. The lifeguard is called Duarte and likes to be told about tiles.",
        "",
    ),
    (
        "(Wheelchair.) How do I get back to Porto airport on day twelve?",
        "Direct train with a ramp that has to be ordered a day ahead; I have put it on your list for day eleven. At Campanhã there are lifts, then metro line E with level boarding, as on the way in.",
        "",
    ),
    (
        "(Wheelchair.) Can you sum up what's booked?",
        "Booked: Casa da Colcha in Guimarães, Mesa do Cais for the special evening, van to the Douro, Quinta do Silêncio garden room 2, cruise on day nine, Mesa Comprida, Casa do Farol room 5, beach chair on day eleven. All step-free. What we arranged at the very beginning I can no longer see, I am afraid.",
        "",
    ),
    (
        "(Wheelchair.) So you don't know about Casa do Remo, room 12.",
        "I do not, that part of our talk is gone for me. I have added it now: Casa do Remo, room 12. If there was more in the first days, please paste your own notes and I will keep them in the list.",
        "",
    ),
    (
        "(Wheelchair.) Tile workshop on Wednesday day two, boat at eleven and cellar at three on day three, peacocks on day four.",
        "All added: workshop on day two, boat at eleven and cellar at three on day three, the gardens on day four. That makes the list complete for all twelve days.",
        "",
    ),
    (
        "(Wheelchair.) What's a small present for Rosa from the workshop?",
        "A jar of something from where you live. She has a shelf of honeys from every country in the studio, right by the level door.",
        "",
    ),
    (
        "(Wheelchair.) And what if it rains on day four?",
        "The Soares galleries next to the gardens: ramp, lift, and a café without thresholds. Peacocks do not mind rain, so you may still meet one.",
        "",
    ),
    (
        "(Wheelchair.) Last one: one sentence I can say in Portuguese when a place has steps after all.",
        "Preciso de um acesso sem degraus, por favor: I need a way in without steps, please. Say it with the smile you have been saving for the peacocks.",
        "",
    ),
    (
        "Obrigada. Next time I'd like an app that remembers its first message.",
        "So would I, Ines. The first message is the one that should never be dropped. Have a wonderful May.",
        "",
    ),
)


def tokens(messages: list[dict[str, str]]) -> int:
    """Count a chat prompt the way OpenAI does: three tokens a message, one for the role, three to start the answer."""
    return sum(3 + count(m["role"]) + count(m["content"]) for m in messages) + 3


def tell() -> dict[str, str]:
    """Write the log; give it by its path."""
    rng = random.Random("trip story")
    now = int(datetime.fromisoformat("2026-03-03T19:02:11+00:00").timestamp())
    history: list[dict[str, str]] = []
    lines: list[dict[str, Any]] = []
    before: list[dict[str, str]] = []
    for said, good, lapse in TURNS:
        history.append({"role": "user", "content": said})
        messages = [{"role": "system", "content": SYSTEM}, *history[-KEPT:]]
        prompt = tokens(messages)
        shared = next((n for n, (a, b) in enumerate(zip(before, messages, strict=False)) if a != b), len(before))
        warm = tokens(messages[:shared]) - 3
        answer = good or lapse
        usage = {"prompt_tokens": prompt, "completion_tokens": count(answer), "total_tokens": prompt + count(answer)}
        usage_more: dict[str, Any] = {
            "prompt_tokens_details": {"cached_tokens": warm // 128 * 128 if warm >= 1024 else 0, "audio_tokens": 0}
        }
        usage_more |= {"completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0}}
        ident = "chatcmpl-" + "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", k=29))
        message = {"role": "assistant", "content": answer, "refusal": None}
        response = {"id": ident, "object": "chat.completion", "created": now, "model": f"{MODEL}-2024-07-18"}
        response |= {"choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}]}
        response |= {"usage": usage | usage_more, "system_fingerprint": "fp_7c1d44a0be"}
        request = {"model": MODEL, "messages": messages, "temperature": 0.4, "max_tokens": 400, "user": "ines-52"}
        lines.append({"request": request, "response": response, "created": now})
        history.append({"role": "assistant", "content": answer})
        before = messages
        now += rng.randint(28, 140)
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    return {"chat-forgets-first-instruction.jsonl": text}

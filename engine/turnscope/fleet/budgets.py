"""Budgets of teams, projects and people: what a fleet's tables say was spent, against what may be. Prints nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from turnscope.errors import TurnscopeError
from turnscope.fleet.queries import Cost, Group, list_costs, list_names, sum_costs
from turnscope.fleet.warehouse import Selection, Warehouse
from turnscope.library import checking
from turnscope.session.content import dumps
from turnscope.views.text_tables import format_csv

EACH = "*"  # in place of a name: every one has this budget
COLUMNS = ("by", "name", "budget_usd", "usd", "requests", "unpriced", "outcome")
_SHAPE = re.compile(r"(?:(team|project|person|tool|model):(.+)|(total))=([^=]+)")
_GROUPS: dict[str, Group] = {name: name for name in ("team", "project", "person", "tool", "model")}


@dataclass(frozen=True, slots=True)
class Budget:
    """What may be spent. `by`: team, project ... or "" = all together; `name`: of the team; `EACH` = every one."""

    by: Group | None
    name: str
    usd: Decimal


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """What was spent against a budget. `cost.usd` is None where no price is known."""

    budget: Budget
    cost: Cost

    @property
    def ok(self) -> bool:
        """Whether it is within the budget. A cost without any known price is not."""
        spent = self.cost.usd
        return spent <= self.budget.usd if spent is not None else not self.cost.unpriced

    @property
    def label(self) -> str:
        """What it is about, as "team search"."""
        return f"{self.budget.by} {self.cost.name or '(not known)'}" if self.budget.by else "total"

    @property
    def sentence(self) -> str:
        """What was spent, in words."""
        usd, more = self.cost.usd, f"; {self.cost.unpriced:,} requests have no known price" if self.cost.unpriced else ""
        if usd is None and self.cost.unpriced:
            return "no request has a known price, so its cost cannot be held to a budget"
        return f"{usd or 0:,.2f} of {self.budget.usd:,.2f} USD, {self.cost.requests:,} requests{more}"


@dataclass(frozen=True, slots=True, repr=False)
class BudgetResults:
    """The results of a check, in the order of its budgets."""

    results: tuple[BudgetResult, ...]

    def __repr__(self) -> str:
        return "\n".join(f"{'ok' if each.ok else 'FAILED'} {each.label}: {each.sentence}" for each in self.results)

    def _list_rows(self) -> Iterator[tuple[str | float | int | None, ...]]:
        for each in self.results:
            spent = None if each.cost.usd is None else round(float(each.cost.usd), 6)
            numbers = (float(each.budget.usd), spent, each.cost.requests, each.cost.unpriced)
            yield (each.budget.by or "total", each.cost.name, *numbers, "ok" if each.ok else "failed")

    def to_csv(self) -> str:
        """A line per budget as CSV."""
        return format_csv(COLUMNS, self._list_rows())

    def to_json(self) -> str:
        """The results as JSON."""
        return dumps({"budgets": [dict(zip(COLUMNS, row, strict=True)) for row in self._list_rows()]}) + "\n"

    def to_junit(self) -> str:
        """The results as JUnit XML: a test case per budget."""
        made = (checking.CheckResult(each.label, violations=() if each.ok else (each.sentence,)) for each in self.results)
        return checking.to_junit(made, "fleet budgets")


def parse_budget(text: str) -> Budget:
    """Read a budget: `team:search=500`, `team:*=500` for every team, `total=9000`. TurnscopeError: it is none."""
    found = _SHAPE.fullmatch(text.strip())
    try:
        usd = Decimal(found[4]) if found else Decimal("nan")
    except InvalidOperation:
        usd = Decimal("nan")
    if found is None or not usd.is_finite() or usd < 0:
        hint = "Write it as team:search=500, project:/work/shop=20, person:*=100 or total=9000, in USD."
        raise TurnscopeError(f"{text!r} is no budget", hint=hint)
    return Budget(_GROUPS[found[1]] if found[1] else None, found[2] or "", usd)


def check_budgets(warehouse: Warehouse, budgets: Sequence[Budget], chosen: Selection) -> BudgetResults:
    """Check what was spent against budgets.

    Args:
        warehouse: the tables.
        budgets: the budgets.
        chosen: the days that count.

    Raises:
        TurnscopeError: a budget is for a name that no session has, on any day.
    """
    results = list[BudgetResult]()
    for budget in budgets:
        if budget.by is None:
            results.append(BudgetResult(budget, sum_costs(warehouse, chosen)))
            continue
        costs = {cost.name: cost for cost in list_costs(warehouse, chosen, budget.by)}
        if budget.name == EACH:
            results += [BudgetResult(budget, cost) for cost in costs.values()]
            continue
        if budget.name not in costs and budget.name not in list_names(warehouse, budget.by):
            hint = "Check its name; `--json` with `*` as the name lists all."
            raise TurnscopeError(f"no session is of the {budget.by} {budget.name!r}", hint=hint)
        results.append(BudgetResult(budget, costs.get(budget.name) or Cost(budget.name)))
    return BudgetResults(tuple(results))

"""A formula's text, read into nodes by hand: no evaluator, no compiler, no import is ever near it.

    expression := sum [("<" | "<=" | ">" | ">=" | "==" | "!=") sum]
    sum        := product {("+" | "-") product}
    product    := signed {("*" | "/") signed}
    signed     := {"+" | "-"} power
    power      := atom ["**" signed]
    atom       := number | name | function "(" expression ")" | "(" expression ")"

The text is refused by length first, so what follows is small whatever it holds; only parentheses, functions
and exponents recurse, and their depth is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sourcewise.errors import ExpressionError
from sourcewise.spec.nodes import (
    COMPARISONS,
    FUNCTIONS,
    Node,
    Number,
    Product,
    Sum,
    add,
    call,
    compare,
    multiply,
    number,
    power,
    scale,
    symbol,
)
from sourcewise.spec.tokens import LIMITS, WORD_HINTS, Token, error_at, scan

__all__ = ["LIMITS", "parse"]

_EXPONENT_RULE = (
    f"exponents are whole numbers or fractions (such as 1/3) with a denominator up to {LIMITS.exponent}, "
    f"from -{LIMITS.exponent} to {LIMITS.exponent}"
)


def parse(text: str) -> Node:
    """The node that `text` stands for; an `ExpressionError` shows the place of whatever is wrong."""
    if not isinstance(text, str):
        kind = type(text).__name__
        raise ExpressionError(f'an expression is a text such as "z*(x - alpha*z)", not one of type {kind}')
    if len(text) > LIMITS.characters:
        message = f"the expression has {len(text)} characters and may have {LIMITS.characters}: split it up"
        raise error_at(text, LIMITS.characters, message)
    return _Parser(text).parse()


class _Parser:
    """One pass over one text: `token` is the next one, `previous` the one before it."""

    __slots__ = ("depth", "nodes", "previous", "roles", "text", "token")

    def __init__(self, text: str) -> None:
        self.text, self.depth, self.nodes = text, 0, 0
        self.roles: dict[str, str] = {}
        self.token = self.previous = scan(text, 0)

    def parse(self) -> Node:
        node = self._expression()
        if self.token.kind != "end":
            raise self._unexpected()
        return node

    def _error(self, message: str, place: int) -> ExpressionError:
        return error_at(self.text, place, message)

    def _take(self) -> Token:
        self.previous = self.token
        self.token = scan(self.text, self.token.place + len(self.token.text))
        return self.previous

    def _sees(self, *operators: str) -> bool:
        return self.token.kind == "operator" and self.token.text in operators

    def _count(self) -> None:
        self.nodes += 1
        if self.nodes > LIMITS.nodes:
            message = f"more than {LIMITS.nodes} numbers, names and operators: split the expression up"
            raise self._error(message, self.token.place)

    def _operator(self) -> Token:
        self._count()
        return self._take()

    def _nested(self, rule: Callable[[], Node], place: int) -> Node:
        self.depth += 1
        if self.depth > LIMITS.depth:
            message = f"nested more than {LIMITS.depth} deep: split the expression up"
            raise self._error(message, place)
        node = rule()
        self.depth -= 1
        return node

    def _built(self, place: int, build: Callable[..., Node], *arguments: object) -> Node:
        """What a constructor of nodes returns; what it refuses is shown at `place`."""
        try:
            node = build(*arguments)
        except ExpressionError as error:
            raise self._error(str(error), place) from None
        for part in [term for term, _ in node.terms] if isinstance(node, Sum) else [node]:
            for _, exponent in part.factors if isinstance(part, Product) else ():
                if abs(exponent) > LIMITS.exponent or exponent.denominator > LIMITS.exponent:
                    message = f"the powers multiply to an exponent of {exponent}: {_EXPONENT_RULE}"
                    raise self._error(message, place) from None
        return node

    def _folded(self, build: Callable[..., Node], nodes: list[Node], places: list[int]) -> Node:
        """All operands of one chain at once (pairwise would take time in its square); on an error, the first
        operand that cannot be joined is looked for."""
        try:
            return self._built(places[-1], build, *nodes)
        except ExpressionError:
            for k in range(2, len(nodes)):
                self._built(places[k - 1], build, *nodes[:k])
            raise

    def _expression(self) -> Node:
        left = self._sum()
        if not self._sees(*COMPARISONS):
            return left
        operator = self._operator()
        node = self._built(operator.place, compare, operator.text, left, self._sum())
        if self._sees(*COMPARISONS):
            message = "comparisons cannot be chained: write (a < b)*(b < c) for a < b < c"
            raise self._error(message, self.token.place)
        return node

    def _sum(self) -> Node:
        nodes, places = [self._product()], [self.previous.place]
        while self._sees("+", "-"):
            operator = self._operator()
            operand = self._product()
            nodes.append(scale(-1.0, operand) if operator.text == "-" else operand)
            places.append(operator.place)
        return self._folded(add, nodes, places) if len(nodes) > 1 else nodes[0]

    def _product(self) -> Node:
        nodes, places = [self._signed()], [self.previous.place]
        while self._sees("*", "/"):
            operator = self._operator()
            operand = self._signed()
            if operator.text == "*":
                nodes.append(operand)
                places.append(operator.place)
                continue
            if isinstance(operand, Number) and operand.value == 0.0:
                raise self._error("division by zero", operator.place)
            if isinstance(operand, Number) and isinstance(nodes[-1], Number):  # 5/3, rounded once
                nodes[-1] = self._built(operator.place, number, nodes[-1].value / operand.value)
                continue
            nodes.append(self._built(operator.place, power, operand, -1))
            places.append(operator.place)
        return self._folded(multiply, nodes, places) if len(nodes) > 1 else nodes[0]

    def _signed(self) -> Node:
        negative = False
        while self._sees("+", "-"):
            negative ^= self._operator().text == "-"
        node = self._power()
        return scale(-1.0, node) if negative else node

    def _power(self) -> Node:
        base = self._atom()
        if not self._sees("**"):
            return base
        operator = self._operator()
        start = self.token.place
        exponent = self._exponent(self._nested(self._signed, start), start)
        return self._built(operator.place, power, base, exponent)

    def _exponent(self, node: Node, place: int) -> Fraction:
        if not isinstance(node, Number):
            raise self._error("an exponent is a constant: for x**a write exp(a*log(x))", place)
        if abs(node.value) > LIMITS.exponent:
            raise self._error(f"an exponent of {node.value:g}: {_EXPONENT_RULE}", place)
        # Fractions this coarse are 2⁻¹² apart, so the one that a rounded 1/3 came from is beyond doubt.
        exponent = Fraction(node.value).limit_denominator(LIMITS.exponent)
        if abs(float(exponent) - node.value) > 1e-14 * abs(node.value):
            raise self._error(f"an exponent of {node.value:g}: {_EXPONENT_RULE}", place)
        return exponent

    def _atom(self) -> Node:
        if self._sees("("):
            return self._parenthesis()
        if self.token.kind == "number":
            self._count()
            return self._number(self._take())
        if self.token.kind != "name":
            raise self._missing()
        self._count()
        name = self._take()
        applied = self._sees("(")
        if applied and name.text not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            hint = f"write {name.text}*(...) to multiply; functions are {known}"
            raise self._error(f"'{name.text}' is not a function: {hint}", name.place)
        role = "function" if applied else "name"
        if self.roles.setdefault(name.text, role) != role:
            message = f"'{name.text}' is used both as a name and as a function: rename it"
            raise self._error(message, name.place)
        if not applied:
            return symbol(name.text)
        return self._built(name.place, call, name.text, self._parenthesis())

    def _parenthesis(self) -> Node:
        opening = self._take()
        if self._sees(")"):
            raise self._error("the parentheses are empty", opening.place)
        node = self._nested(self._expression, opening.place)
        if self.token.kind == "end":
            raise self._error("this parenthesis is never closed", opening.place)
        if not self._sees(")"):
            raise self._unexpected()
        self._take()
        return node

    def _number(self, token: Token) -> Node:
        value = float(token.text)
        if value == 0.0 and any(digit in "123456789" for digit in token.text.lower().partition("e")[0]):
            message = "a number in the expression is too small for floating-point arithmetic"
            raise self._error(message, token.place)
        return self._built(token.place, number, value)

    def _missing(self) -> ExpressionError:
        """An operand should come next, and does not."""
        if self.token.kind == "end":
            begun = self.previous is not self.token
            message = "the expression ends where a number, a name or '(' should follow"
            return self._error(message if begun else "the expression is empty", self.token.place)
        return self._error(f"expected a number, a name or '(' before '{self.token.text}'", self.token.place)

    def _unexpected(self) -> ExpressionError:
        """An operator should come next, and does not."""
        left, right = self.previous, self.token
        if self._sees(")"):
            return self._error("this parenthesis was never opened", right.place)
        touching = left.kind == "number" and right.place == left.place + len(left.text)
        if touching and left.text == "0" and right.text[0] in "xXbBoO" and right.text[1:]:
            return self._error("only decimal numbers can be read", left.place)
        if touching and right.text[0] == "_":
            return self._error("a number has digits, a point and an exponent, no _", right.place)
        if right.text[0] == "." and touching:
            return self._error("a number has one decimal point", right.place)
        hint = ""
        if left.kind == "number" and right.text[0] not in "0123456789.":
            hint = f": write {left.text}*{'(...)' if right.text == '(' else right.text}"
        elif left.kind == "name" and left.text in FUNCTIONS:
            hint = f": write {left.text}({right.text})"
        for word in (right.text, left.text):
            hint = f": {WORD_HINTS[word]}" if word in WORD_HINTS else hint
        return self._error(f"expected an operator before '{right.text}'{hint}", right.place)

"""Texts written to break in, hang or exhaust memory: each is read in a process of its own, inside a fence.

The fence: 256 MB more address space than the process had before, and 0.5 s of processor time (not of the
clock, which says more about the other tenants of the machine). One parent imports the parser once and forks
for every text, so that imports are neither measured nor repeated.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("resource", reason="limits on a process and fork need a POSIX system")

SECONDS = 0.5
MEGABYTES = 256

_FENCE = """
import json, os, resource, signal, sys, time
from sourcewise.errors import ExpressionError
from sourcewise.spec.expression import parse
from sourcewise.spec.nodes import derivative, to_text

def fence(megabytes):
    try:
        with open("/proc/self/statm") as pages:
            size = int(pages.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + megabytes * 2**20,) * 2)
    except FileNotFoundError:  # no /proc: the resident size measured below has to do
        pass
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))

def read(text):
    try:
        node = parse(text)
        for name in sorted(node.symbols)[:3]:
            derivative(derivative(node, name), name)
        return "read", to_text(node)[:500]
    except ExpressionError as error:
        return "refused", str(error)
    except BaseException as error:
        return "broken", type(error).__name__

def attempt(text, megabytes):
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    outcome, detail = read(text)
    seconds = time.process_time() - started
    unit = 1 if sys.platform == "darwin" else 1024
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit / 2**20
    return dict(outcome=outcome, detail=detail, seconds=seconds, megabytes=grown)

job = json.load(sys.stdin)
answers = []
for text in job["texts"]:
    into, out_of = os.pipe()
    child = os.fork()
    if child == 0:
        fence(job["megabytes"])
        answer = attempt(text, job["megabytes"])
        os.write(out_of, json.dumps(answer).encode())
        os._exit(0)
    os.close(out_of)
    with os.fdopen(into) as pipe:
        written = pipe.read()
    _, status = os.waitpid(child, 0)
    answers.append(json.loads(written) if written else dict(outcome="killed", detail=str(status)))
json.dump(answers, sys.stdout)
"""


def _nested(step: str, start: str, times: int) -> str:
    """`start` put in the place of E in `step`, again and again."""
    text = start
    for _ in range(times):
        text = step.replace("E", text)
    return text


# What is refused, and words that the message must contain.
REFUSED: dict[str, tuple[str, str]] = {
    "import": ("__import__('os').system('true')", "'__import__' is not a function"),
    "import as a factor": ("x*__import__('os')", "'__import__' is not a function"),
    "import statement": ("import os", "expected an operator before 'os'"),
    "eval": ("eval('1')", "'eval' is not a function"),
    "exec": ("exec(x)", "'exec' is not a function"),
    "open": ("open('/etc/passwd').read()", "'open' is not a function"),
    "breakpoint": ("breakpoint()", "'breakpoint' is not a function"),
    "print": ("print(x)", "'print' is not a function"),
    "class tree": ("().__class__.__mro__", "the parentheses are empty"),
    "attribute": ("x.__class__.__mro__", "a dot belongs inside a number only"),
    "attribute of a number": ("1 .__class__", "a dot belongs inside a number only"),
    "attribute of a call": ("exp(x).real", "a dot belongs inside a number only"),
    "f-string": ("f'{x.__class__}'", "text in quotes"),
    "format": ("'{0.__class__}'.format(x)", "text in quotes"),
    "percent format": ("'%s' % x", "text in quotes"),
    "long string": ('"""x"""', "text in quotes"),
    "bytes": ("b'x'", "text in quotes"),
    "lambda": ("lambda: 0", "a colon has no place"),
    "lambda of x": ("(lambda x: x)(1)", "expected an operator before 'x'"),
    "list comprehension": ("[x for x in y]", "only round parentheses group"),
    "generator": ("(x for x in y)", "expected an operator before 'for'"),
    "walrus": ("(x := 1)", "a colon has no place"),
    "assignment": ("x = 1", "write == to compare"),
    "subscript": ("x[0]", "only round parentheses group"),
    "dictionary": ("{x: 1}", "only round parentheses group"),
    "starred": ("*x", "expected a number, a name or '(' before '*'"),
    "double-starred": ("exp(**x)", "expected a number, a name or '(' before '**'"),
    "keyword": ("exp(x=1)", "write == to compare"),
    "two arguments": ("exp(x, y)", "functions take one argument"),
    "conditional": ("x if y else z", "expected an operator before 'if'"),
    "await": ("await x", "expected an operator before 'x'"),
    "two statements": ("x; import os", "';' has no place"),
    "comment": ("x # y", "'#' has no place"),
    "continued line": ("x \\\n + y", "'\\' has no place"),
    "escape": ("\\x41", "'\\' has no place"),
    "backquote": ("`x`", "'`' has no place"),
    "dollar": ("${x}", "'$' has no place"),
    "ellipsis": ("...", "a dot belongs inside a number only"),
    "imaginary": ("1j", "write 1*j"),
    "hexadecimal": ("0xff", "only decimal numbers"),
    "octal": ("0o17", "only decimal numbers"),
    "underscores in a number": ("1_000", "no _"),
    "full-width letter": ("x*\uff58", "U+FF58 FULLWIDTH LATIN SMALL LETTER X"),
    "Cyrillic letter": ("\u0445", "U+0445 CYRILLIC SMALL LETTER HA"),
    "Arabic digit": ("\u0661", "U+0661 ARABIC-INDIC DIGIT ONE"),
    "superscript": ("x\u00b2", "write **2"),
    "one half": ("\u00bd", "U+00BD VULGAR FRACTION ONE HALF"),
    "combining mark": ("x\u0301", "U+0301 COMBINING ACUTE ACCENT"),
    "joiner": ("x\u200dy", "U+200D ZERO WIDTH JOINER"),
    "byte order mark": ("\ufeffx", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
    "NUL": ("x\x00", "U+0000 (a control character)"),
    "only NUL": ("\x00" * 2000, "U+0000 (a control character)"),
    "escape sequence": ("x\x1b[2J", "U+001B (a control character)"),
    "surrogate": ("\ud800x", "U+D800 (not a character)"),
    "surrogate pair": ("x\udbff\ud800", "U+DBFF (not a character)"),
    "right-to-left override": ("x\u202e+ y", "U+202E RIGHT-TO-LEFT OVERRIDE"),
    "isolate": ("x\u2066+ y", "U+2066 LEFT-TO-RIGHT ISOLATE"),
    "bidirectional marks": ("\u200f" * 10**6, "1000000 characters"),
    "tower of nines": ("9**9**9**9", "an exponent of 3.8742e+08"),
    "tower of variables": ("x**9**9**9", "an exponent of 3.8742e+08"),
    "tower from the left": ("((((9**64)**64)**64)**64)", "is not a finite real number"),
    "powers of powers": ("(((x**64)**64)**64)**64", "multiply to an exponent of 4096"),
    "huge exponent": ("x**99999999999999999999", "an exponent of 1e+20"),
    "huge decimal exponent": ("x**1e300", "an exponent of 1e+300"),
    "tiny exponent": ("x**1e-300", "whole numbers or fractions"),
    "factorial": ("factorial(10**8)", "'factorial' is not a function"),
    "multinomial": ("(x+y+z+w)**120", "an exponent of 120"),
    "multinomial in steps": ("((x+y+z+w)**60)**2", "multiply to an exponent of 120"),
    "sine 60 deep": (_nested("sin((E)*x)+x", "x", 60), "'sin' is not a function"),
    "exponential 60 deep": (_nested("exp((E)*x)+x", "x", 60), "nested more than 50 deep"),
    "exponential that doubles": (_nested("exp(E*E)+x", "x", 12), "split it up"),
    "infinite number": ("1e1000000000", "too large"),
    "vanishing number": ("1e-1000000000", "too small"),
    "long exponent": ("1e" + "9" * 2000, "too large"),
    "many digits": ("9" * 2048, "too large"),
    "infinite product": ("1e200*1e200*x", "too large"),
    "hexadecimal of a million digits": ("0x" + "f" * 10**6, "1000002 characters"),
    "decimal of a million digits": ("9" * 10**6, "1000000 characters"),
    "name of a million letters": ("x" * 10**6, "1000000 characters"),
    "name of 2,000 letters": ("x" * 2000, "a name of 2000 characters"),
    "100,000 parentheses": ("(" * 100_000 + "x" + ")" * 100_000, "200001 characters"),
    "2,000 parentheses": ("(" * 2000, "nested more than 50 deep"),
    "100,000 open parentheses": ("(" * 100_000, "100000 characters"),
    "100,000 closing parentheses": (")" * 100_000, "100000 characters"),
    "100,000 minus signs": ("-" * 100_000 + "x", "100001 characters"),
    "2,000 minus signs": ("-" * 2000 + "x", "more than 500 numbers, names and operators"),
    "100,000 times +1": ("x" + "+1" * 100_000, "200001 characters"),
    "1,000 times +1": ("x" + "+1" * 1000, "more than 500 numbers, names and operators"),
    "1,000 stars": ("x" + "**2" * 500, "nested more than 50 deep"),
    "100,000 functions": ("exp(" * 100_000, "400000 characters"),
    "500 functions": ("exp(" * 500, "nested more than 50 deep"),
    "a million spaces": (" " * 10**6 + "x", "1000001 characters"),
    "a million digits and a letter": ("1" * 10**6 + "x", "1000001 characters"),
    "product of 124 sums": ("*".join(f"(x+{k})" for k in range(2, 126)), "too long to differentiate"),
    "chain of comparisons": ("x" + "<x" * 200, "comparisons cannot be chained"),
}

# Texts as bad as the limits allow, which are formulas all the same; their second derivatives are
# taken and timed as well.
READ: dict[str, tuple[str, str]] = {
    "a name that is code elsewhere": ("__import__*lambda - E*I*S*N*Q", "__import__*lambda"),
    "50 parentheses": ("(" * 50 + "x" + ")" * 50, "x"),
    "499 minus signs": ("-" * 499 + "x", "-x"),
    "249 times +1": ("x" + "+1" * 249, "249 + x"),
    "49 exponentials": (_nested("exp(x*E)+x", "x", 49), "x + exp("),
    "49 roots": (_nested("sqrt(1+x*E)", "x", 49), "(1 + x*("),
    "49 powers": (_nested("(x+E)**2", "x", 49), ")**2"),
    "64th power of a sum": ("(x+y+z+w)**64", "(w + x + y + z)**64"),
    "product of 24 sums": ("*".join(f"(x+{k})" for k in range(2, 26)), "(2 + x)"),
    "250 different names": ("+".join(f"a{k}" for k in range(250)), "a0 + a1 + a10"),
    "product of 250 names": ("*".join(f"a{k}" for k in range(250)), "a0*a1*a10"),
    "a quotient of quotients": ("/".join(["x", "y"] * 60), "x**(-58)*y**(-60)"),
    "fraction of a number with 2,000 digits": ("0." + "3" * 2000, "0.333333333333333"),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Any]]:
    """What became of each text: outcome, detail, seconds and megabytes, by the text's label."""
    cases = {**REFUSED, **READ}
    done = subprocess.run(
        # Python warns of a fork beside threads, which a linear algebra library may have started.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FENCE],
        input=json.dumps({"texts": [text for text, _ in cases.values()], "megabytes": MEGABYTES}),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stderr == ""
    return dict(zip(cases, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("label", REFUSED)
def test_an_attack_is_refused_quickly_and_clearly(label: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[label]
    assert outcome["outcome"] == "refused", outcome
    assert REFUSED[label][1] in outcome["detail"]
    assert outcome["detail"].replace("\n", "").isascii()
    assert outcome["detail"].replace("\n", "").isprintable()
    assert len(outcome["detail"]) < 1000
    assert outcome["seconds"] < SECONDS
    assert outcome["megabytes"] < MEGABYTES


@pytest.mark.parametrize("label", READ)
def test_the_worst_that_the_limits_allow_is_harmless(label: str, outcomes: dict[str, dict[str, Any]]) -> None:
    outcome = outcomes[label]
    assert outcome["outcome"] == "read", outcome
    assert READ[label][1] in outcome["detail"]
    assert outcome["seconds"] < SECONDS
    assert outcome["megabytes"] < MEGABYTES


_AUDITED = """
import json, sys
from sourcewise.errors import ExpressionError
from sourcewise.spec.expression import parse

texts = json.load(sys.stdin)
seen, watching = [], False

def hook(event, arguments):
    if watching:
        seen.append(event)

sys.addaudithook(hook)
counts = {"read": 0, "refused": 0}
watching = True
for text in texts:
    try:
        parse(text)
        counts["read"] += 1
    except ExpressionError:
        counts["refused"] += 1
watching = False
during, seen = seen, []
watching = True
exec(compile("import colorsys", "", "exec"))
open(sys.executable, "rb").close()
watching = False
json.dump({"during": during, "afterwards": seen, **counts}, sys.stdout)
"""


def test_an_audit_hook_sees_nothing_happen_while_texts_are_read() -> None:
    texts = [
        "z*(x - alpha*z)",
        "Phi(x) < 0.5",
        "",
        *(text for text, _ in [*REFUSED.values(), *READ.values()]),
    ]
    done = subprocess.run(
        [sys.executable, "-c", _AUDITED],
        input=json.dumps(texts),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = json.loads(done.stdout)
    # Not only no exec, compile, open, import or socket: no event whatsoever.
    assert told["during"] == []
    assert told["read"] > len(READ)
    assert told["refused"] > len(REFUSED) - 2
    assert told["read"] + told["refused"] == len(texts)
    # The hook was awake: it saw what was done on purpose afterwards.
    assert {"compile", "exec", "import", "open"} <= set(told["afterwards"])


def test_reading_does_not_depend_on_how_much_stack_is_left() -> None:
    from sourcewise.spec.expression import LIMITS, parse

    text = "1+x*exp(" * LIMITS.depth + "x" + ")" * LIMITS.depth

    def deep(frames: int) -> object:
        return deep(frames - 1) if frames else parse(text)

    assert deep(300) == parse(text)

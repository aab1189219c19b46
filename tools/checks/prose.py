# SPDX-License-Identifier: Apache-2.0
"""Width of Markdown, tables too; long sentences there and in C comments; hidden subjects."""

import io
import re
import tokenize

COLUMNS = 100
WORDS_MAX = 25
FENCED = re.compile(r"^[ ]*```.*?^[ ]*```$", re.M | re.S)
# Blocks of code, headings and tables: from an empty line on, or line by line.
INDENTED = re.compile(r"(?:\A|(?<=\n\n)) {4}(?! *(?:[*-]|\d+\.) ).*(?:\n.+)*")
NO_SENTENCE = re.compile(r"^ *[|#].*", re.M)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
PARAGRAPH = re.compile(r"\n(?=\s*\n|\s*(?:[*-]|\d+\.)\s)")
# A name of the code begins one, too, and so does its error.
CODE_BEGINS = r"[-*@&]?(?:\w+(?:->|\(|\.[ch]\b)|\w*_)|-[A-Z]"
SENTENCE = re.compile(rf"[.:;?!][*_\")]*\s+(?=[*_\"(]*[A-Z0-9\[@]|\*\*|{CODE_BEGINS})")
# Of a comment: the marks of its lines, and rows of tables and lines of code, which have tabs.
EDGES = re.compile(r"^[ \t]*(?:/\*+|\*(?!\w)) ?|\*/$", re.M)
ROW = re.compile(r"^.*\t.*", re.M)
# Spelled so that this file does not find itself.
SUBJECT = r"W" + r"ho(?:ever)?|N" + r"obody|S" + r"omebody|W" + r"hat(?:ever)?"
BEFORE = r"(?:^|\f|[.:!?] +)[ \t*/#>-]*(?:\*\*\w+\*\* )?"  # with the letter of an invariant
BEGINS = re.compile(rf"{BEFORE}((?:{SUBJECT})\b)(?![^.\n]*\?)", re.M)
HIDDEN = r"h" + r"e|h" + r"is|h" + r"im|n" + r"o[\s*#]+one(?!-)|wh" + r"om?ever"
BODIES = r"(?:no|some|any|every)b" + r"ody|(?:some|any|every)o" + r"ne"
# Not an option, a path or a value, such as the name of an account.
WORDS = re.compile(rf"(?<![-/=])\b({HIDDEN}|{BODIES})\b", re.IGNORECASE)
# A relative clause about people is allowed, and one that says what belongs to a thing.
PRONOUN = re.compile(r"\b(w" + r"ho(?:m|se)?)\b", re.IGNORECASE)
ROLES = r"(?:engineer|developer|programmer|operator|user|author)s?|people"
GAP = r"[,`'\")\]|*#\s]*(?:\b(?:for|from|of|by|to|with|in|on|at|than)\s+)?[*#\s]*$"
PEOPLE = re.compile(rf"\b(?:{ROLES}){GAP}", re.IGNORECASE)
THING = re.compile(rf"(\w+){GAP}")
# Behind these words a clause is a question, or has no noun that it could belong to.
NO_THING = re.compile(
    r"(?:say|said|tell|told|know|knew|known|ask|see|saw|learn|find|found|decide|show|matter|name)s?"
    r"|and|or|but|if|that|is|are|was|were|be|no|not|as|for|from|of|by|to|with|in|on|at|than|about"
)
# Lines that stay as they are: examples of bad sentences, subjects of commits, and text of others.
QUOTED = {
    "CONTRIBUTING.md": re.compile(r"^\|.*", re.M),
    "tests/sim/kept_seeds": re.compile(r'^# ".*"$', re.M),
    "LICENSE": re.compile(r".+"),
}
TOKEN = re.compile(
    r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*#[ \t]*include[^\n]*""",
    re.S | re.M,
)
BETWEEN_LITERALS = re.compile(r"[\s\w\\]*")
# Python 3.12 divides a formatted string.
PYTHON_TEXT = [tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", None)]


def unescaped(literal):
    """As long as the literal, with a form feed where a new line of the message begins."""
    return re.sub(r"\\(.)", lambda m: " \f" if m[1] == "n" else " " + m[1], literal)


def of_c(text):
    """Comments, and literals with those that continue them."""
    run, first, end = "", 0, 0
    for match in TOKEN.finditer(text):
        token = match[0]
        if token.startswith("/"):
            yield match.start(), token
        elif token.startswith('"'):
            between = text[end : match.start()]
            if not run or not BETWEEN_LITERALS.fullmatch(between):
                yield first, run
                run, first, between = "", match.start(), ""
            run += re.sub(r"\S", " ", between) + " " + unescaped(token[1:-1]) + " "
            end = match.end()
    yield first, run


def of_python(text):
    """Comments and strings; comments that follow each other are one."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    covered = [" "] * len(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in PYTHON_TEXT:
            first = starts[token.start[0] - 1] + token.start[1]
            last = starts[token.end[0] - 1] + token.end[1]
            comment = token.type == tokenize.COMMENT
            covered[first:last] = text[first:last] if comment else unescaped(text[first:last])
    for offset, char in enumerate(text):
        if char == "\n":
            covered[offset] = char
    yield 0, "".join(covered)


def prose(tree, name):
    """(offset, text) of what people read in a file, messages too; offsets are those of the file."""
    text = tree.texts[name]
    if name.endswith((".c", ".cc", ".h")):
        yield from of_c(text)
    elif name.endswith(".py") or re.match(r"#!.*\bpython", text):
        yield from of_python(text)
    elif tree.is_shell(name):
        yield 0, unescaped(text)
    elif name in QUOTED:
        yield 0, QUOTED[name].sub(lambda m: " " * len(m[0]), text)
    else:
        yield 0, text


def hides(pronoun, before):
    """Whether this relative pronoun stands without the noun that it needs."""
    if not pronoun.lower().endswith("se"):
        return not PEOPLE.search(before)
    thing = THING.search(before)
    return not thing or NO_THING.fullmatch(thing[1].lower()) is not None


def hidden_subjects(text):
    """(offset, word) of each."""
    for pattern in BEGINS, WORDS:
        for match in pattern.finditer(text):
            yield match.start(1), match[1]
    for match in PRONOUN.finditer(text):
        if hides(match[1], text[max(match.start() - COLUMNS, 0) : match.start()]):
            yield match.start(1), match[1]


def check_width(tree):
    for name in tree.named(".md"):
        for number, line in tree.lines(name):
            unbreakable = not re.search(r"\S\s+\S", re.sub(r"^[\s>*-]+", "", line))
            if len(line) > COLUMNS and not unbreakable:
                tree.find(name, number, f"{len(line)} columns", f"break it at {COLUMNS}")


def spaced(text, kept=""):
    """As long as the text, with its lines."""
    return kept + re.sub(r"\S", " ", text)[len(kept) :]


def sentences(text):
    """(offset, sentence) of Markdown; a piece of code is a word, a semicolon no end."""
    for pattern in FENCED, INDENTED, NO_SENTENCE:
        text = pattern.sub(lambda m: spaced(m[0]), text)
    text = LINK.sub(lambda m: "[" + m[1] + spaced(m[0])[len(m[1]) + 1 :], text)
    text = CODE.sub(lambda m: spaced(m[0], "X"), text)
    first = 0
    ends = [match.start() for match in PARAGRAPH.finditer(text)]
    ends += [match.start() + 1 for match in SENTENCE.finditer(text)]
    for end in sorted([*ends, len(text)]):
        sentence = text[first:end]
        yield first + len(sentence) - len(sentence.lstrip()), sentence
        first = end


def pages(name, text):
    """(first line, text) of a page of Markdown, or of each comment in C."""
    if name.endswith(".md"):
        yield 1, text
        return
    for match in TOKEN.finditer(text):
        if match[0].startswith("/"):
            line = text.count("\n", 0, match.start()) + 1
            yield line, ROW.sub("", EDGES.sub("", match[0]))


def check_lengths(tree):
    for name in tree.named(".md", ".c", ".cc", ".h"):
        for line, text in pages(name, tree.texts[name]):
            for first, sentence in sentences(text):
                words = len(re.findall(r"\S*\w\S*", sentence))
                if words > WORDS_MAX:
                    at = line + text.count("\n", 0, first)
                    remedy = f"divide it: at most {WORDS_MAX}"
                    tree.find(name, at, f"a sentence of {words} words", remedy)


def check_prose(tree):
    for name, whole in tree.texts.items():
        found = {}
        for first, text in prose(tree, name):
            for offset, word in hidden_subjects(text):
                found[whole.count("\n", 0, first + offset) + 1] = word
        for number, word in sorted(found.items()):
            remedy = "name the role: the reader, the writer, the memory server"
            tree.find(name, number, f"'{word}'", remedy)

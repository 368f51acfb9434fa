# SPDX-License-Identifier: BSL-1.0
"""Markdown, as the pages of this project write it, to HTML: headings, paragraphs, lists, tables, fenced code, images,
links, code, emphasis."""
import html
import re

KEYWORDS = ("alignas auto bool break case char class concept const consteval constexpr continue decltype default delete do double else "
            "enum explicit extern false float for friend if inline int namespace new noexcept nullptr operator private "
            "protected public requires return short signed sizeof static static_assert struct switch template this throw "
            "true typedef typename union unsigned using virtual void while").split()
TOKEN = re.compile(r"(?P<c>//[^\n]*|/\*.*?\*/)|(?P<s>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+')|(?P<p>^[ ]*\#[^\n]*)|"
                   rf"(?P<k>\b(?:{'|'.join(KEYWORDS)})\b)", re.S | re.M)


def highlighted(code):
    """C++ with a class for comments, strings, preprocessor lines and keywords."""
    result, end = [], 0
    for found in TOKEN.finditer(code):
        result += html.escape(code[end:found.start()], False), f"<i class={found.lastgroup}>{html.escape(found[0], False)}</i>"
        end = found.end()
    return "".join(result) + html.escape(code[end:], False)


def slug(words, seen):
    """The anchor that GitHub gives a heading."""
    anchor = base = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
    repeats = 0
    while anchor in seen:
        repeats += 1
        anchor = f"{base}-{repeats}"
    seen.add(anchor)
    return anchor


class Page:
    """Converts one page. `link` maps the target of a link to an address, and `code` a piece of code to HTML."""

    def __init__(self, text, link, code):
        self.link, self.code, self.seen = link, code, set()
        self.headings = []  # (level, anchor, text)
        self.html = self.blocks(re.sub(r"^<!--.*?-->\n?", "", text, flags=re.S | re.M).splitlines())

    def inline(self, text):
        kept = []

        def keep(piece):
            kept.append(piece)
            return f"\0{len(kept) - 1}\0"

        def linked(found):
            for number in re.findall("\0(\\d+)\0", found[1]):  # code in a link is not a link itself
                kept[int(number)] = re.sub(r"</?a\b[^>]*>", "", kept[int(number)])
            return keep(f'<a href="{html.escape(self.link(found[2]))}">') + found[1] + keep("</a>")

        text = re.sub(r"(`+)(.+?)\1(?!`)", lambda m: keep(self.code(m[2])), text, flags=re.S)
        text = re.sub(r"\\([*_`\\|<\[\]])", lambda m: keep(html.escape(m[1], False)), text)
        text = re.sub(r"<(https?:[^>]+)>", lambda m: keep(f'<a href="{m[1]}">{html.escape(m[1], False)}</a>'), text)
        text = html.escape(text, False)
        text = re.sub(r"!\[([^\]]*)\]\(([^()\s]+)\)",
                      lambda m: keep(f'<img src="{self.link(m[2])}" alt="{html.escape(m[1])}">'), text)
        text = re.sub(r"\[([^\]]*)\]\(([^()\s]+)\)", linked, text)
        text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text, flags=re.S)
        text = re.sub(r"(?<![\w*])\*([^\s*][^*]*?)\*(?![\w*])", r"<em>\1</em>", text)
        while "\0" in text:
            text = re.sub("\0(\\d+)\0", lambda m: kept[int(m[1])], text)
        return text

    def heading(self, line):
        mark, words = re.match(r"(#{1,6})\s+(.*?)\s*#*$", line).groups()
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("`", "")
        anchor = slug(plain, self.seen)
        self.headings.append((len(mark), anchor, plain))
        return f'<h{len(mark)} id="{anchor}">{self.inline(words)}</h{len(mark)}>'

    def table(self, lines):
        def cells(line):
            return [self.inline(cell.strip().replace("\\|", "|")) for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]

        sides = [' class="right"' if cell.strip().endswith("-:") else "" for cell in lines[1].strip("| ").split("|")]

        def row(line, tag):
            return "<tr>" + "".join(f"<{tag}{side}>{cell}</{tag}>" for cell, side in zip(cells(line), sides)) + "</tr>"

        return ('<div class="wide"><table><thead>' + row(lines[0], "th") + "</thead><tbody>"
                + "\n".join(row(line, "td") for line in lines[2:]) + "</tbody></table></div>")

    def blocks(self, lines):
        result, i = [], 0
        item = re.compile(r"([-*]|\d+\.) +")
        while i < len(lines):
            line, start = lines[i], i
            i += 1
            if not line.strip():
                continue
            if fence := re.match(r"(```+|~~~+)(\w*)", line):
                while i < len(lines) and lines[i].strip() != fence[1]:
                    i += 1
                code = "\n".join(lines[start + 1:i])
                i += 1
                result.append("<pre>" + (highlighted(code) if fence[2] == "cpp" else html.escape(code, False)) + "</pre>")
            elif re.match(r"#{1,6} ", line):
                result.append(self.heading(line))
            elif line.startswith("|"):
                while i < len(lines) and lines[i].startswith("|"):
                    i += 1
                result.append(self.table(lines[start:i]))
            elif mark := item.match(line):
                tag, indent, items = "ol" if mark[1][0].isdigit() else "ul", 2, []
                i = start
                while i < len(lines) and (mark := item.match(lines[i])):
                    indent, own = mark.end(), [lines[i][mark.end():]]
                    i += 1
                    while i < len(lines) and (lines[i].startswith(" ") or not lines[i].strip() and i + 1 < len(lines)
                                              and lines[i + 1].startswith("  ") or lines[i].strip() and own[-1].strip()
                                              and not item.match(lines[i]) and not re.match(r"[#|`]", lines[i])):
                        own.append(re.sub(rf"^ {{0,{indent}}}", "", lines[i]))
                        i += 1
                    items.append(self.blocks(own))
                    if i + 1 < len(lines) and not lines[i].strip() and item.match(lines[i + 1]):
                        i += 1
                items = [re.sub(r"^<p>(.*?)</p>", r"\1", text, count=1, flags=re.S) for text in items]
                result.append(f"<{tag}>" + "\n".join(f"<li>{text}</li>" for text in items) + f"</{tag}>")
            else:
                while i < len(lines) and lines[i].strip() and not item.match(lines[i]) and not re.match(r"(#{1,6} |\||```)", lines[i]):
                    i += 1
                result.append("<p>" + self.inline("\n".join(lines[start:i])) + "</p>")
        return "\n".join(result)

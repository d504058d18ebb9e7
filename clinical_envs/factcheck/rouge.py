"""ROUGE-L precision, the measure of the published hallucination rule."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Runs of letters and digits after NFKC and case folding; no stemming.

    On ASCII text these are the tokens of the rouge-score package. Decided beyond it: letters
    outside ASCII are letters, so a translated quote does not match by its Latin remains.

    >>> words("TNF-α fell by 3.5%")
    ['tnf', 'α', 'fell', 'by', '3', '5']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def lcs_length(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, one big-integer step for each token of ``b``.

    Bit i of ``row`` is 0 where a prefix of ``a`` that ends at i gains one; after the last token
    the zeros are the length (Hyyrö 2004).
    """
    everywhere = (1 << len(a)) - 1
    occurs: dict[str, int] = {}
    for i, token in enumerate(a):
        occurs[token] = occurs.get(token, 0) | (1 << i)
    row = everywhere
    for token in b:
        matched = row & occurs.get(token, 0)
        row = ((row + matched) | (row - matched)) & everywhere
    return len(a) - row.bit_count()


def rouge_l_precision(quote: str, source: str) -> float:
    """``LCS(quote, source) / words in quote``, in [0, 1]; an empty quote has precision 0.

    >>> rouge_l_precision("aspirin reduced stroke", "Aspirin significantly reduced stroke.")
    1.0
    """
    quoted = words(quote)
    return lcs_length(words(source), quoted) / len(quoted) if quoted else 0.0

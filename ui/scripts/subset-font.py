"""Writes ui/src/fonts/inter-latin.woff2: the characters, weights and features of Inter that the UI uses.

Run it with `scripts/ui font`, which installs the versions of fonttools and brotli that make the output reproducible.
"""

from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

UI = Path(__file__).resolve().parent.parent
SOURCE = UI / "node_modules/@fontsource-variable/inter/files/inter-latin-wght-normal.woff2"
TARGET = UI / "src/fonts/inter-latin.woff2"

# The same ranges stand in `unicode-range` of ui/src/app.css.
RANGES = [
    (0x20, 0x7E),
    (0xA0, 0xFF),
    (0x131, 0x131),
    (0x152, 0x153),
    (0x2C6, 0x2C6),
    (0x2DC, 0x2DC),
    (0x2013, 0x2014),
    (0x2018, 0x201A),
    (0x201C, 0x201E),
    (0x2020, 0x2022),
    (0x2026, 0x2026),
    (0x202F, 0x202F),
    (0x2030, 0x2030),
    (0x2039, 0x203A),
    (0x20AC, 0x20AC),
    (0x2122, 0x2122),
    (0x2190, 0x2193),
    (0x2212, 0x2212),
]
WEIGHTS = (400, 600)
FEATURES = ["kern", "tnum"]


def main():
    font = TTFont(SOURCE, recalcTimestamp=False)
    options = subset.Options(layout_features=FEATURES, hinting=False, name_IDs=[0, 1, 2, 13, 14])
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in RANGES for code in range(first, last + 1)])
    subsetter.subset(font)
    font = instancer.instantiateVariableFont(font, {"wght": WEIGHTS})
    font.flavor = "woff2"
    TARGET.parent.mkdir(exist_ok=True)
    font.save(TARGET)
    print(f"{TARGET.relative_to(UI)}: {TARGET.stat().st_size} bytes, {len(font.getGlyphOrder())} glyphs")


main()

"""The colours of the page: contrast as defined by WCAG 2, and colour blindness.

Text needs a contrast of at least 4.5 to 1 with its background; parts of charts and borders of
controls need 3 to 1. Colour blindness is simulated after Machado, Oliveira and Fernandes (2009),
severity 1, in linear RGB; distances are CIE76 in Lab, where 2.3 is just noticeable.
"""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

CSS = (files("rack_traffic.report") / "templates" / "page.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root[^{]*\{([^}]*)\}", CSS)
)
THEMES = {"light": LIGHT, "dark": {**LIGHT, **DARK}}

MACHADO = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
Vector = NDArray[np.float64]


def linear(colour: str) -> Vector:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(each) @ [0.2126, 0.7152, 0.0722]) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Vector) -> Vector:
    x, y, z = (np.array(TO_XYZ) @ np.clip(rgb, 0, 1)) / [0.9505, 1.0, 1.089]
    f = [c ** (1 / 3) if c > 0.008856 else 7.787 * c + 16 / 116 for c in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_contrast_and_distance_of_known_colours() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    # Red and green of equal lightness are hard to distinguish with deuteranopia.
    red, green = linear("#b04a30"), linear("#60701c")
    without = np.array(MACHADO["deuteranopia"])
    assert np.linalg.norm(lab(red) - lab(green)) > 40
    assert np.linalg.norm(lab(without @ red) - lab(without @ green)) < 20


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_enough_contrast(theme: str) -> None:
    colours = THEMES[theme]
    for text in ("ink", "muted", "link", "local-text", "crossing-text", "saving-text"):
        for background in ("page", "panel"):
            ratio = contrast(colours[text], colours[background])
            assert ratio >= 4.5, (text, background, ratio)
    # Labels and selected segments have the colour of the panel on blue and on ink.
    assert contrast(colours["panel"], colours["local-text"]) >= 4.5
    assert contrast(colours["panel"], colours["ink"]) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_bars_cells_and_borders_of_controls_have_enough_contrast(theme: str) -> None:
    colours = THEMES[theme]
    for part in ("local", "crossing", "unknown", "neutral", "local-high", "crossing-high"):
        ratio = contrast(colours[part], colours["panel"])
        assert ratio >= 3, (part, ratio)


@pytest.mark.parametrize("theme", THEMES)
def test_text_in_cells_has_enough_contrast(theme: str) -> None:
    # Lightness is monotonic from low to high, so the contrast is lowest at an end.
    colours = THEMES[theme]
    for hue in ("local", "crossing", "unknown"):
        for end in ("low", "high"):
            ratio = contrast(colours["ink"], colours[f"{hue}-{end}"])
            assert ratio >= 4.5, (hue, end, ratio)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("vision", ["normal", *MACHADO])
def test_the_three_colours_of_traffic_are_distinguishable(theme: str, vision: str) -> None:
    seen = np.array(MACHADO[vision]) if vision in MACHADO else np.eye(3)
    for one, other in combinations(("local", "crossing", "unknown"), 2):
        distance = np.linalg.norm(
            lab(seen @ linear(THEMES[theme][one])) - lab(seen @ linear(THEMES[theme][other]))
        )
        assert distance >= 20, (one, other, distance)

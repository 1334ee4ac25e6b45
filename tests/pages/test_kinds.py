"""Kinds of heads: what leads a head, and no two kinds look alike."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from headcount.pages.kinds import counted, findings, kinds_of, leading, tint
from headcount.results import Role
from headcount.vocabulary import IMAGES, ROLES, TEXTS, roles_named, roles_of, traits_of
from tests.pages.changed import changed
from tests.pages.run_folder import shared_run
from tests.pages.test_profile_view import TRAIT

LINKED = roles_of(traits_of(TEXTS, has_links=True))
"""The roles that texts with links can give."""

# Machado et al. (2009), severity 1, on linear RGB
DICHROMATS = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
    "none": np.eye(3).tolist(),
}


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE Lab of a colour in linear RGB."""
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("roles", [LINKED, IMAGES.roles], ids=["sentences", "images"])
@pytest.mark.parametrize("eye", DICHROMATS)
def test_no_two_roles_have_hues_alike(eye: str, roles: tuple[str, ...]):
    seen = {}
    assert {*LINKED, *IMAGES.roles} == {*ROLES}
    for role in map(ROLES.__getitem__, roles):
        rgb = np.array(to_rgb(role.colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        seen[role.name] = lab(np.array(DICHROMATS[eye]) @ linear)
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 15, (one, other)


def test_no_two_kinds_have_letters_alike(profiled: Path):
    run = shared_run(profiled)
    letters = [kind.letter for kind in kinds_of(run)] + [r.abbreviation for r in ROLES.values()]
    assert len(letters) > 10 and len(set(letters)) == len(letters)


def test_the_main_role_leads_then_the_strongest_tendency():
    role, weaker = replace(TRAIT, trait="rare", role="rare", strength=0.2), TRAIT
    tendency = replace(TRAIT, trait="self", role="positional", strength=0.9, verdict="tendency")
    nothing = replace(TRAIT, trait="next", role="positional", strength=0.9, verdict="none")
    found = findings([nothing, tendency, weaker, role], [Role("rare"), Role("sink")])
    assert [trait.trait for trait in found] == ["rare", "first", "self"]


def test_a_role_leads_before_a_stronger_tendency_of_it():
    role = replace(TRAIT, trait="self", role="positional", strength=0.2)
    tendency = replace(role, trait="next", strength=0.9, verdict="tendency")
    found = findings([tendency, role], [Role("positional")])
    assert [trait.trait for trait in found] == ["self", "next"]


def test_a_tendency_is_as_strong_in_colour_as_it_is(profiled: Path):
    leads = next(each for each in leading(shared_run(profiled)).values() if each)
    shades = [
        tint(replace(leads, verdict="tendency", strength=strength)) for strength in (0.0, 0.5, 1.0)
    ]
    assert shades == [14, 33, 52]


def test_the_legend_has_one_order(profiled: Path):
    found = leading(shared_run(profiled)).values()
    keys = [kind.key for kind, _ in counted(found)]
    order = ["previous", "self", "syntax", "rare", "punctuation", "segment", "first"]
    assert keys == [key for key in order if key in keys] and len(keys) > 3
    assert keys == [kind.key for kind, _ in counted(reversed([*found]))]


def test_an_unknown_role_has_an_abbreviation_of_its_own():
    names = roles_named(["sink", "sister", "sistrum"])
    assert [each.abbreviation for each in names.values()] == ["Si", "Ss", "St"]


def test_every_head_of_a_run_is_led_by_its_main_role(profiled: Path):
    run = shared_run(profiled)
    found = leading(run)
    assert run.traits is not None
    for row in run.rows:
        leads = found[row.head]
        verdicts = {trait.verdict for trait in run.traits[row.head]}
        if row.roles:
            assert leads is not None and (leads.kind.role.name, tint(leads)) == (row.roles[0], 100)
        elif "tendency" in verdicts:
            assert leads is not None and leads.verdict == "tendency" and 14 <= tint(leads) <= 52
        else:
            assert leads is None


def test_without_profiles_roles_lead(plain: Path):
    run = shared_run(plain)
    found = leading(run)
    for row in run.rows:
        leads = found[row.head]
        assert (leads.kind.role.name if leads else None) == (row.roles[0] if row.roles else None)
    head = run.rows[0].head
    two = changed(run, roles={**run.roles, head: (Role("sink"), Role("syntactic"))})
    assert (led := leading(two)[head]) is not None and led.second is not None
    assert (led.kind.role.name, led.second.role.name) == ("sink", "syntactic")


def test_the_second_letter_is_the_next_finding_of_another_kind(profiled: Path):
    run = shared_run(profiled)
    run = changed(run, roles={row.head: () for row in run.rows})
    head = run.rows[0].head
    subject = replace(
        TRAIT, trait="nsubj", role="syntactic", relation="nsubj", direction="head->dependent"
    )
    traits = (
        replace(TRAIT, verdict="tendency", strength=0.9),
        replace(subject, verdict="tendency", strength=0.5),
        replace(subject, trait="obj", relation="obj", verdict="tendency", strength=0.7),
        replace(TRAIT, trait="self", role="positional", offset=0, verdict="none", strength=0.8),
    )
    led = leading(changed(run, traits={head: traits}))[head]
    assert led is not None and led.second is not None
    assert (led.kind.key, led.second.key) == ("first", "syntax")
    alone = leading(changed(run, traits={head: (traits[1], traits[2])}))[head]
    assert alone is not None and alone.kind.key == "syntax" and alone.second is None

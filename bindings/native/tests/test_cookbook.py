"""The recipes in Python run as they stand in the cookbook."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COOKBOOK = Path(__file__).parents[3] / "docs" / "cookbook.md"
RECIPES = re.findall(r"^```python\n(.*?)^```$", COOKBOOK.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("recipe", RECIPES, ids=range(len(RECIPES)))
def test_a_recipe_runs(recipe: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", recipe], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_there_are_recipes() -> None:
    assert len(RECIPES) >= 5

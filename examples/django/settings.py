"""The least that a project with a database has. Tests do not use the database that is named here."""

SECRET_KEY = "for the example only"
INSTALLED_APPS = ["orders"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "shop"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

TEST_RUNNER = "branch_runner.BranchRunner"
DURAMEN_SOURCE = "shop"

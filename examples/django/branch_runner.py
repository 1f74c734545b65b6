"""Runs tests in a branch of a source: no database is created, none is dropped, and the source's data is there.

Copy this file, and say in the settings: TEST_RUNNER = "branch_runner.BranchRunner", DURAMEN_SOURCE = "..."
"""

import duramen
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.test.runner import DiscoverRunner
from psycopg.conninfo import conninfo_to_dict

# A branch that a killed run has left ends by itself after so many seconds.
TTL_S = 900
NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


class BranchRunner(DiscoverRunner):
    def setup_databases(self, **kwargs):
        if self.parallel > 1:
            raise CommandError("a branch is for one process: leave out --parallel, or start several `manage.py test`")
        client = duramen.Client()
        branch = client.create(settings.DURAMEN_SOURCE, policy="ddl", ttl=TTL_S)
        try:
            place = conninfo_to_dict(branch.url)
            default = connections["default"]
            default.close()
            default.settings_dict.update({name: str(place.pop(key, "")) for key, name in NAMES.items()})
            default.settings_dict["OPTIONS"] = place
            # The migrations that the source does not have yet run on its data.
            call_command("migrate", verbosity=max(0, self.verbosity - 1), interactive=False)
        except BaseException:
            self.teardown_databases((client, branch))
            raise
        return client, branch

    def teardown_databases(self, old_config, **kwargs):
        client, branch = old_config
        connections.close_all()
        try:
            branch.destroy()
        finally:
            client.close()

"""An engine of SQLAlchemy for each test, in a branch of the test's own."""

import pytest
import sqlalchemy


@pytest.fixture
def engine(duramen_database_url):
    url = sqlalchemy.make_url(duramen_database_url).set(drivername="postgresql+psycopg")
    engine = sqlalchemy.create_engine(url)
    yield engine
    engine.dispose()

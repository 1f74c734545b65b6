"""An index that keeps nobody out is not made in a transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("shop", "0002_orders_have_notes")]
    operations = [AddIndexConcurrently("order", models.Index(fields=["state"], name="orders_state"))]

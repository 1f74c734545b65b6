"""What was there before Django: `migrate --fake-initial` does not run it where the table exists."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.IntegerField(primary_key=True)),
                ("state", models.TextField()),
            ],
            options={"db_table": "orders"},
        )
    ]

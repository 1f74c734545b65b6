from django.db import models


class Order(models.Model):
    id = models.IntegerField(primary_key=True)
    state = models.TextField()
    note = models.TextField(db_default="")

    class Meta:
        db_table = "orders"
        indexes = [models.Index(fields=["state"], name="orders_state")]

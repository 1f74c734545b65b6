from django.db import models


class Item(models.Model):
    """What the shop sells: a table that the source has."""

    id = models.IntegerField(primary_key=True)
    name = models.TextField()
    price = models.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        db_table = "items"
        managed = False


class Order(models.Model):
    """A table that a migration makes, because the source does not have it yet."""

    item = models.ForeignKey(Item, on_delete=models.PROTECT)
    pieces = models.PositiveIntegerField()

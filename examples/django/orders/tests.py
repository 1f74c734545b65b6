from decimal import Decimal

from django.db import IntegrityError, connection, transaction
from django.db.models import F, Sum
from django.test import TestCase, TransactionTestCase

from .models import Item, Order


class OrdersTest(TestCase):
    """Each test is rolled back."""

    def setUp(self):
        self.order = Order.objects.create(item=Item.objects.get(name="paper"), pieces=2)

    def test_data_of_the_source_is_there(self):
        total = Order.objects.aggregate(total=Sum(F("pieces") * F("item__price")))["total"]
        self.assertEqual((Item.objects.count(), total), (3, Decimal("9.00")))

    def test_other_tests_are_not_seen(self):
        self.assertEqual(Order.objects.count(), 1)
        Item.objects.filter(name="ink").delete()

    def test_what_the_database_refuses(self):
        with self.assertRaises(IntegrityError), transaction.atomic():
            Order.objects.create(item=self.order.item, pieces=-1)


class CommittedTest(TransactionTestCase):
    """These commit. What the models have is emptied after each, but not the tables of the source, which are not managed."""

    def test_what_is_committed_is_seen_by_another_connection(self):
        Order.objects.create(item_id=1, pieces=1)
        other = connection.copy()
        with other.cursor() as cursor:
            cursor.execute("select count(*) from orders_order")
            self.assertEqual(cursor.fetchone(), (1,))
        other.close()

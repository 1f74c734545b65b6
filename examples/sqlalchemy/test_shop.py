from decimal import Decimal

import pytest
from sqlalchemy import ForeignKey, Numeric, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    price: Mapped[Decimal] = mapped_column(Numeric(10, 2))


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item_id: Mapped[int] = mapped_column(ForeignKey(Item.id))
    item: Mapped[Item] = relationship()


@pytest.mark.parametrize("attempt", [1, 2])
def test_each_has_the_data_of_the_source(engine, attempt):
    """What one deletes and commits is there for the other."""
    with Session(engine) as session:
        assert session.scalar(select(func.sum(Item.price))) == Decimal("12.65")
        session.delete(session.get(Item, 3))
        session.commit()
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Item)) == 2


@pytest.mark.duramen(policy="ddl")
def test_tables_that_the_source_does_not_have(engine):
    Base.metadata.create_all(engine)
    with Session(engine) as session, session.begin():
        session.add(Order(item=session.get(Item, 1)))
    with Session(engine) as session:
        assert session.scalars(select(Order)).one().item.name == "pencil"
        session.add(Order(item_id=99))
        with pytest.raises(IntegrityError):
            session.commit()

create table orders (id bigint generated always as identity primary key, note text not null);
insert into orders (note) select y from t where x <= 10;

create table orders (id bigint generated always as identity primary key, note text not null);

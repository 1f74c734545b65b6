create table half (x int);
select 1 / 0;

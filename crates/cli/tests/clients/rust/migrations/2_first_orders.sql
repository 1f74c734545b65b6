insert into orders (note) select y from t where x <= 10;

//! MAP.

use super::build::*;
use super::world::*;
use crate::interpret::MAX_ITEMS;

#[test]
fn a_body_runs_for_every_row_so_many_at_a_time() {
    each(&map(sql("items"), then(sql("a $item").named("x"), sql("b $x $item.v")), 2), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["10", "11", "12"])));
        world.advance();
        assert_eq!(world.texts(), ["a 10", "a 11"]);
        assert_eq!(world.pending[1].cell().as_str(), "3@1");
        world.ok("a 11", "5");
        assert_eq!(world.texts(), ["a 10", "b 5 11"], "I-8");
        world.ok("b 5 11", "101");
        assert_eq!(world.texts(), ["a 10", "a 12"]);
        world.ok("a 12", "6");
        world.ok("b 6 12", "102");
        assert_eq!(world.cell("2@1"), None, "only the cells of the last item are kept");
        assert_eq!(world.status("4@2").as_deref(), Some("completed"));
        world.ok("a 10", "4");
        let last = world.ok("b 4 10", "100");
        assert_eq!(completed(&last).text(), format!("[{},{},{}]", one("100"), one("101"), one("102")), "I-5");
    });
}

#[test]
fn names_of_items_end_with_them() {
    each(&then(map(sql("items"), sql("a $item").named("x"), 1), sql("after $x $item")), |world| {
        world.advance();
        world.ok("items", "1");
        world.ok("a 1", "2");
        assert_eq!(world.texts(), ["after $x $item"], "I-8");
    });
}

#[test]
fn rows_keep_their_text_and_all_columns() {
    each(&map(sql("items"), sql("$item.a $item.b"), 1), |world| {
        world.advance();
        world.reply("items", Ok(json(r#"{"rows":[{"b":1.50,"a":"x}]"}],"row_count":1}"#)));
        world.advance();
        assert_eq!(world.texts(), ["'x}]' 1.50"]);
    });
}

#[test]
fn after_a_failure_no_item_begins_and_the_lowest_failure_counts() {
    each(&map(sql("items"), sql("a $item"), 3), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["0", "1", "2", "3", "4"])));
        world.advance();
        assert!(world.fail("a 2", "two").requests.is_empty(), "I-6");
        assert!(world.fail("a 1", "one").requests.is_empty(), "I-6");
        assert_eq!(failed(&world.ok("a 0", "0")), "one", "I-6");
    });
}

#[test]
fn no_rows_give_an_empty_array() {
    each(&map(sql("items"), sql("a"), 3), |world| {
        world.advance();
        world.reply("items", Ok(rows(&[])));
        assert_eq!(completed(&world.advance()).text(), "[]", "I-5");
    });
}

#[test]
fn what_is_no_rows_or_too_many_fails() {
    let mut world = World::new(&map(sql("items"), sql("a"), 3));
    world.advance();
    world.reply("items", Ok(json("[1]")));
    assert!(failed(&world.advance()).contains("not rows"));
    let mut world = World::new(&map(sql("items"), sql("a"), 3));
    world.advance();
    world.reply("items", Ok(rows(&vec!["1"; MAX_ITEMS + 1])));
    assert!(failed(&world.advance()).contains("10001 rows are too many"));
    let mut world = World::new(&map(sql("items"), sql("a"), 3));
    world.advance();
    assert_eq!(failed(&world.fail("items", "no items")), "no items");
}

#[test]
fn maps_nest_and_their_cells_have_both_numbers() {
    let inner = map(sql("inner $item").named("rows"), sql("x $item"), 5);
    each(&map(sql("outer"), inner, 5), |world| {
        world.advance();
        world.reply("outer", Ok(rows(&["1", "2"])));
        world.advance();
        for text in ["inner 1", "inner 2"] {
            world.reply(text, Ok(rows(&["7", "8"])));
        }
        world.advance();
        let cells: Vec<&str> = world.pending.iter().map(|request| request.cell().as_str()).collect();
        assert_eq!(cells, ["4@0.0", "4@0.1", "4@1.0", "4@1.1"]);
        for _ in 0..2 {
            world.reply("x 8", Ok(one("80")));
            world.reply("x 7", Ok(one("70")));
        }
        let inner = format!("[{},{}]", one("70"), one("80"));
        assert_eq!(completed(&world.advance()).text(), format!("[{inner},{inner}]"));
    });
}

#[test]
fn a_map_in_a_loop_can_be_left() {
    let body = when(sql("stop $item"), leave_with("$item"), sql("work $item"));
    each(&then(forever(map(sql("items"), body, 2)), sql("after")), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["1", "2", "3"])));
        world.advance();
        world.ok("stop 1", "0");
        assert_eq!(world.texts(), ["stop 2", "work 1"]);
        let progress = world.ok("stop 2", "1");
        assert_eq!(progress.dropped.len(), 1, "I-10");
        assert_eq!(world.texts(), ["after"]);
        assert_eq!(
            world.cell("1").unwrap().field("r").map(|value| value.text().to_owned()).as_deref(),
            Some("2")
        );
    });
}

#[test]
fn a_map_in_a_loop_begins_anew() {
    each(&forever(map(sql("items"), sql("a $item"), 2)), |world| {
        for value in ["1", "2"] {
            world.advance();
            world.ok("items", value);
            let text = format!("a {value}");
            assert_eq!(world.texts(), [text.as_str()]);
            world.ok(&text, "0");
            world.after(1.0);
            assert_eq!(world.cell("3@0"), None);
        }
    });
}

#[test]
fn a_map_that_loses_a_race_is_dropped_whole() {
    each(&race(map(sql("items"), then(sql("a $item"), sql("b")), 10), signal("stop", None)), |world| {
        world.advance();
        world.reply("items", Ok(rows(&["1", "2", "3"])));
        world.advance();
        world.ok("a 2", "1");
        let last = world.signal("stop", "true");
        assert_eq!(last.dropped.len(), 3, "I-1");
        assert!(last.outcome.is_some());
    });
}

//! What a daemon is told while it serves.

use tokio::sync::watch;

/// What the daemon does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// It goes on serving.
    Serve,
    /// It stops, with the servers of all branches.
    Stop,
    /// It ends, and leaves the servers of leased branches to the next daemon of this home.
    HandOver,
    /// The same, and its program, which may be a newer one by now, is run anew in its process.
    Replace,
}

/// Gives orders to a daemon. The first one that ends it counts.
#[derive(Debug, Clone)]
pub(crate) struct Orders(watch::Sender<Order>);

impl Orders {
    pub(crate) fn new() -> Orders {
        Orders(watch::Sender::new(Order::Serve))
    }

    /// Gives an order; one that ended the daemon before stays.
    pub(crate) fn give(&self, order: Order) {
        self.0.send_if_modified(|given| {
            let is_new = *given == Order::Serve && order != Order::Serve;
            if is_new {
                *given = order;
            }
            is_new
        });
    }

    /// For waiting until the daemon ends.
    pub(crate) fn ending(&self) -> Ending {
        Ending(self.0.subscribe())
    }
}

/// The end of the serving, to wait for.
#[derive(Debug)]
pub(crate) struct Ending(watch::Receiver<Order>);

impl Ending {
    /// Waits for the order that ends the serving.
    pub(crate) async fn wait(&mut self) -> Order {
        match self.0.wait_for(|order| *order != Order::Serve).await {
            Ok(order) => *order,
            // Nobody is left who could give one.
            Err(_) => Order::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Orders};

    #[tokio::test]
    async fn the_first_order_that_ends_a_daemon_counts() {
        let orders = Orders::new();
        let mut ending = orders.ending();
        orders.give(Order::Serve);
        orders.give(Order::HandOver);
        orders.give(Order::Stop);
        assert_eq!(ending.wait().await, Order::HandOver);
        drop(orders);
        assert_eq!(ending.wait().await, Order::HandOver);
    }
}

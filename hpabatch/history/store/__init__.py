"""Store: a partitioned, indexed, transactional history."""

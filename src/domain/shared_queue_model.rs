//! The shared queue, walked at random.

//! Heap dumps of every shape: written by hand, and made by the JVMs that are at hand.

mod jvm;
mod shapes;
mod writer;

//! Heap dumps of every shape: written by hand, and made by the JVMs that are at hand.

mod figures;
mod jvm;
mod kinds;
mod shapes;
mod writer;

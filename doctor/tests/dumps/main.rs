//! Heap dumps of every shape: written by hand, made after a published incident, and made by the JVMs that are at hand.

mod figures;
mod holders;
mod hostile;
mod incident;
mod jvm;
mod kinds;
mod shapes;
mod writer;

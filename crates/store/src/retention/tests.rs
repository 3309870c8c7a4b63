mod disk;
mod histories;
mod model;
mod pieces;

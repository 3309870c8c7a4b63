mod histories;
mod model;
mod pieces;

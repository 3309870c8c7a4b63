mod disk;
mod histories;
mod hostile;
mod model;
mod pieces;
mod pins;

/** Work was turned away before anything was stored: too much is waiting already. */
export class Overloaded extends Error {
  override readonly name = 'Overloaded';
}

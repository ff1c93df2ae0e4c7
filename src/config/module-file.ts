/** Paths of modules that are started or loaded by their path, in a clone and in a published package. */
import { fileURLToPath } from 'node:url';

/**
 * The compiler renames only imports for a published package, where all modules are JavaScript.
 * @param typescript the module in a clone
 * @param self the module whose kind the others have
 */
export function moduleFile(typescript: URL, self = import.meta.url): string {
  const file = fileURLToPath(typescript);
  return self.endsWith('.js') ? file.replace(/\.ts$/, '.js') : file;
}

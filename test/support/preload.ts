/**
 * Code that runs before the program in one kind of process of the service. It injects faults that have no cause
 * outside, such as a full disk or a worker that fails at its start.
 */

/**
 * @param program the end of the file name that the process starts with; `.ts` means all
 * @returns environment for the service
 */
export function preload(
  program: 'main.ts' | 'worker.ts' | '.ts',
  code: string,
): { NODE_OPTIONS: string } {
  const source = `if (process.argv[1]?.endsWith('${program}')) { ${code} }`;
  return { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(source)}` };
}

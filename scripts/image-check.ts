/**
 * `npm run image-check`: follows the Dockerfile without Docker, step by step in root folders with a fresh Debian, and
 * runs the result as `deploy/docker/compose.yml` does: an ordinary user without capabilities, a root that is read-only,
 * a volume and a /tmp. There it sends an email, runs the health check, stops, and starts again on the same volume.
 *
 * Exit code 0: passed, 1: failed, 75: this machine has no root, no namespaces or no mirror of Debian, so nothing was
 * checked (scripts/alarms.ts says what `.ci/run` does then). It takes four minutes, most of them to install Debian and
 * packages.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { buildImage } from './image/build.ts';
import { checkContainer } from './image/container.ts';
import { createDebian, whyNoRootFolders } from './image/root-folder.ts';

const USAGE = `Usage: npm run image-check -- [options]

Follows the Dockerfile in root folders with a fresh Debian, and runs the result. Needs root on Linux.

  --debian <folder>  use this root folder of debootstrap instead of a new one
  --keep             keep the root folders
  --help             show this text
`;

const ROOT = join(import.meta.dirname, '..');
/** The suite of the images that the Dockerfile begins with. */
const SUITE = 'trixie';
const NOT_CHECKED = 75; // EX_TEMPFAIL of sysexits.h

process.exitCode = await main();

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      debian: { type: 'string' },
      keep: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    return 0;
  }
  const reason = whyNoRootFolders();
  if (reason !== null) return notChecked(reason);
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-image-'));
  try {
    const debian = values.debian ?? join(folder, 'debian');
    if (values.debian === undefined && !createDebian(SUITE, debian, join(folder, 'tools')))
      return notChecked('debootstrap cannot be had, or finds no mirror of Debian');
    const image = await buildImage({ repository: ROOT, debian, folder });
    await checkContainer(image, join(folder, 'volume'));
    return 0;
  } finally {
    if (values.keep) process.stdout.write(`Kept: ${folder}\n`);
    else rmSync(folder, { recursive: true, force: true });
  }
}

function notChecked(reason: string): number {
  process.stderr.write(`The image was not checked: ${reason}.\n`);
  return NOT_CHECKED;
}

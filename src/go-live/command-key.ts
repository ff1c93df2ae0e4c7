/**
 * The step that creates a live key for the domain, once. `--key-file` writes it to a new file that only its owner can
 * read. Without the option it is printed, once.
 */
import { open, unlink } from 'node:fs/promises';
import type { ApiKeyWithSecret } from '../../sdk/src/api.ts';
import type { GoLive, Step } from './command-step.ts';

const step = 'key';

export async function createLiveKey(goLive: GoLive): Promise<Step> {
  const { client, name, options } = goLive;
  for await (const key of client.apiKeys.list({ limit: 100 })) {
    if (key.domain !== null && key.domain !== name) continue;
    const message = `The live key ${key.hint}… (${key.name}) can send from ${name}. To replace it: letterhaus keys rotate ${key.id}`;
    return { step, state: 'done', message, data: { id: key.id } };
  }
  const { keyFile } = options;
  if (keyFile !== undefined) return createInFile(goLive, keyFile);
  const { id, key } = await create(goLive);
  const message = `This is the live key of ${name}. It is shown only now:`;
  return { step, state: 'done', message, lines: [key], data: { id, key } };
}

function create({ client, name }: GoLive): Promise<ApiKeyWithSecret> {
  const label = `Sends from ${name}`;
  return client.apiKeys.create({ name: label, permission: 'sending_access', domain: name });
}

/** Opens the file first, so that no key exists that was not written. */
async function createInFile(goLive: GoLive, path: string): Promise<Step> {
  let file;
  try {
    file = await open(path, 'wx', 0o600);
  } catch (error) {
    const isThere = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const why = isThere ? 'the file exists; name another one' : (error as Error).message;
    return { step, state: 'todo', message: `No key was created, because of ${path}: ${why}.` };
  }
  try {
    const { id, key } = await create(goLive);
    await file.writeFile(`${key}\n`);
    await file.sync();
    const message = `The live key of ${goLive.name} is in ${path}, which only you can read.`;
    return { step, state: 'done', message, data: { id, file: path } };
  } catch (error) {
    await unlink(path).catch(() => {});
    throw error;
  } finally {
    await file.close();
  }
}

/**
 * Shows how the memory for contents of messages is divided among projects while uses last as long as the test lets
 * them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newMessage } from '../../../test/support/deliveries.ts';
import { newId } from '../../database/ids.ts';
import { headOf, type StoredMessage } from '../message/message-store.ts';
import { ContentMemory } from './content-memory.ts';
import { MIB } from '../../lib/units.ts';

type Large = { message: StoredMessage; contentBytes: number };

function large(megabytes: number, projectId = newId()): Large {
  return { message: newMessage({ projectId }), contentBytes: megabytes * MIB };
}

/** Creates contents that record the loaded messages in `loaded`. */
function newContents(messages: readonly Large[]): { contents: ContentMemory; loaded: string[] } {
  const loaded: string[] = [];
  const load = async ({ id }: { id: string }): Promise<StoredMessage> => {
    loaded.push(id);
    return messages.find(({ message }) => message.id === id)?.message ?? newMessage();
  };
  return { contents: new ContentMemory({ world: { random: () => 0 }, load }), loaded };
}

/** Starts a use that lasts until `end` is called. */
function hold(contents: ContentMemory, email: Large): { end: () => void; used: Promise<unknown> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const request = { message: headOf(email.message), contentBytes: email.contentBytes };
  return { end: resolve, used: contents.use(request, () => promise) };
}

const hasMemory = (contents: ContentMemory, email: Large): boolean =>
  contents.unavailable(email) === null;

test('a project uses as much memory as it leaves free, and others use the rest', async () => {
  const own = newId();
  const messages = [large(14, own), large(14, own), large(14, own), large(12), large(1)];
  const { contents } = newContents(messages);
  assert.equal(hasMemory(contents, messages[0]!), true);
  hold(contents, messages[0]!);
  assert.equal(hasMemory(contents, large(13, own)), false);
  assert.equal(hasMemory(contents, large(12, own)), true);
  hold(contents, large(12, own));
  assert.equal(hasMemory(contents, large(1, own)), false);
  assert.equal(hasMemory(contents, messages[3]!), true);
});

test('a reserve has memory for medium messages when none is left for large ones', () => {
  const { contents } = newContents([]);
  hold(contents, large(30));
  hold(contents, large(10));
  assert.equal(hasMemory(contents, large(1)), false);
  assert.equal(hasMemory(contents, large(0.2)), true);
});

test('the largest message can be loaded when nothing else is, even if its estimate is larger', () => {
  const { contents } = newContents([]);
  assert.equal(hasMemory(contents, large(60)), true);
});

test('a message without memory waits for some seconds and is not loaded', async () => {
  const messages = [large(40), large(30)];
  const { contents, loaded } = newContents(messages);
  const first = hold(contents, messages[0]!);
  const second = await contents.use(messages[1]!, () => assert.fail('it has no room'));
  assert.deepEqual(second, { kind: 'unavailable', delayMs: 5_000 });
  first.end();
  await first.used;
  assert.equal(hasMemory(contents, messages[1]!), true);
  assert.deepEqual(loaded, [messages[0]!.message.id]);
});

test('the recipients of an email share its content, which is loaded once and counted once', async () => {
  const email = large(30);
  const { contents, loaded } = newContents([email]);
  const [first, second] = [hold(contents, email), hold(contents, email)];
  first.end();
  await first.used;
  assert.equal(hasMemory(contents, large(30)), false);
  second.end();
  await second.used;
  assert.equal(hasMemory(contents, large(30)), true);
  assert.equal(loaded.length, 1);
});

test('content that was just accepted is not loaded again', async () => {
  const email = large(1);
  const { contents, loaded } = newContents([email]);
  contents.keep(email.message);
  const used = await contents.use(email, async (message) => message.subject);
  assert.equal(used, email.message.subject);
  assert.deepEqual(loaded, []);
});

test('a failed load frees its memory', async () => {
  const contents = new ContentMemory({
    world: { random: () => 0 },
    load: () => Promise.reject(new Error('away')),
  });
  await assert.rejects(
    contents.use(large(40), () => assert.fail('it is not loaded')),
    /away/,
  );
  assert.equal(hasMemory(contents, large(40)), true);
});

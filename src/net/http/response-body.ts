/** Reads bodies of responses into memory, up to a limit, because a server may send a body without an end. */

/**
 * @throws TypeError, as fetch does, when the body is too large or ends early. The code of its cause is for operators.
 */
export async function readBody({ body }: Response, bytesMax: number): Promise<Buffer<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  // Leaving the loop closes the connection.
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > bytesMax) {
      throw new TypeError('the response is too large', { cause: { code: 'too large' } });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

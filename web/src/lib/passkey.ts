/** Passkeys of the browser (WebAuthn). The service speaks base64url, the browser bytes. */
import type {
  PasskeyAddition,
  PasskeyCreation,
  PasskeyRequest,
  PasskeyResponse,
} from '../../../sdk/src/api.ts';

/** Milliseconds for the person to find the device. The service accepts a response for ten minutes. */
const TIMEOUT_MS = 300_000;

export function hasPasskeys(): boolean {
  return 'PublicKeyCredential' in window && isSecureContext;
}

/** @throws Error with a sentence, also when the person closes the browser's dialog */
export async function createPasskey(
  creation: PasskeyCreation,
  name: string,
): Promise<PasskeyAddition> {
  const created = await asked(() =>
    navigator.credentials.create({
      publicKey: {
        challenge: bytesOf(creation.challenge),
        rp: { id: creation.host, name: 'Letterhaus' },
        user: {
          id: bytesOf(creation.user_id),
          name: creation.user_email,
          displayName: creation.user_name,
        },
        pubKeyCredParams: creation.algorithms.map((alg) => ({ type: 'public-key', alg })),
        excludeCredentials: creation.known_credential_ids.map((id) => ({
          type: 'public-key',
          id: bytesOf(id),
        })),
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        attestation: 'none',
        timeout: TIMEOUT_MS,
      },
    }),
  );
  const response = created.response as AuthenticatorAttestationResponse;
  const publicKey = response.getPublicKey();
  if (publicKey === null) throw new Error('This kind of passkey is not supported.');
  return {
    name,
    client_data: textOf(response.clientDataJSON),
    authenticator_data: textOf(response.getAuthenticatorData()),
    public_key: textOf(publicKey),
    algorithm: response.getPublicKeyAlgorithm(),
  };
}

/** @throws Error with a sentence, also when the person closes the browser's dialog */
export async function usePasskey({ challenge, host }: PasskeyRequest): Promise<PasskeyResponse> {
  const used = await asked(() =>
    navigator.credentials.get({
      publicKey: {
        challenge: bytesOf(challenge),
        rpId: host,
        userVerification: 'required',
        timeout: TIMEOUT_MS,
      },
    }),
  );
  const response = used.response as AuthenticatorAssertionResponse;
  return {
    credential_id: textOf(used.rawId),
    client_data: textOf(response.clientDataJSON),
    authenticator_data: textOf(response.authenticatorData),
    signature: textOf(response.signature),
  };
}

async function asked(ask: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  try {
    const credential = await ask();
    if (credential instanceof PublicKeyCredential) return credential;
  } catch (error) {
    const { name } = error as DOMException;
    if (name === 'InvalidStateError') {
      throw new Error('This device has a passkey of yours already.', { cause: error });
    }
    if (name === 'SecurityError') {
      throw new Error('Open the dashboard at its own address to use a passkey.', { cause: error });
    }
  }
  throw new Error('No passkey was used. Try again, or sign in another way.');
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function textOf(buffer: ArrayBuffer): string {
  const binary = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

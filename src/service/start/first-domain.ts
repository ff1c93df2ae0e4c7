/** The domain of the first project, apart from first-start.ts because the command that shows it is always loaded. */

/** `.test` is reserved (RFC 6761), and the test environment verifies it without DNS. */
export const FIRST_DOMAIN = 'acme.test';

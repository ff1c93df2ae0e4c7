/** The constants that the build defines (web/build.js). */
interface ImportMetaEnv {
  /** The version of Letterhaus. */
  readonly VERSION: string;
}

// Style sheets, which esbuild gathers into one.
declare module "*.css";
